// The spec's `provider` map, which pipec hands to the stage library as it stands.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pipec::emit {

/// JSON text as a FlexBuffer; empty text, empty buffer.
std::vector<uint8_t> provider(const std::string &json);

} // namespace pipec::emit
