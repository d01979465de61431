// The `provider` values of a plan, which the spec passes to the stage library unchanged.
#pragma once

#include "runtime/plan/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace pipec::plan {

/// Makes a FlexBuffer from JSON text; empty text gives an empty buffer.
Status providerOf(const std::string &json, std::vector<uint8_t> &provider);

/// Makes JSON text from a FlexBuffer; an empty buffer gives "null". `provider` must have passed rule P20, so it can be
/// read. As a stranger may have written it, text longer than 16 times limits::kProviderBytes and values that JSON does
/// not have are refused.
Status jsonOf(const std::vector<uint8_t> &provider, std::string &json);

} // namespace pipec::plan
