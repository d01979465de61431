// The `provider` values of a plan: what the spec hands to the stage library as it stands.
#pragma once

#include "runtime/plan/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace pipec::plan {

/// JSON text as a FlexBuffer; empty text, empty buffer.
Status providerOf(const std::string &json, std::vector<uint8_t> &provider);

/// The opposite: JSON text, "null" for an empty buffer. `provider` has passed rule P20, so it can be read; as a
/// stranger may have written it, text of more than 16 times limits::kProviderBytes, and what JSON cannot say, is
/// refused.
Status jsonOf(const std::vector<uint8_t> &provider, std::string &json);

} // namespace pipec::plan
