// The simulated run of a plan as a trace that Perfetto opens: the same kind of file that a real run writes.
#pragma once

#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"

#include <string>

namespace pipec::emit {

/// `steps` simulated steps of a variant as JSON text.
Status perfetto(const plan::Variant &variant, int64_t steps, std::string &json);

} // namespace pipec::emit
