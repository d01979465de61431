// Messages between processes besides their transfers, over the same connections.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace pipec::runtime {

/// Takes a message of another process (launch/Messages.h): its kind, a number, and its bytes. Returns what is wrong
/// with it; empty: nothing. Called on the io_context's thread.
using HeardOfPeer = std::function<std::string(int32_t peer, uint32_t kind, std::span<const uint8_t> bytes)>;

} // namespace pipec::runtime
