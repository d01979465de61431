// The `provider` values of a plan: what the spec hands to the stage library as it stands.
#pragma once

#include "runtime/plan/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace pipec::plan {

/// JSON text as a FlexBuffer; empty text, empty buffer.
Status providerOf(const std::string &json, std::vector<uint8_t> &provider);

} // namespace pipec::plan
