// Settings of a socket between processes of a job.
#pragma once

#include <asio.hpp>

namespace pipec::runtime {

/// For how many seconds a peer may be silent on the network before its connection ends with timed_out.
inline constexpr int kSilence = 3;

/// Sets a socket so that small messages leave at once, and that reading or writing fails if the peer is gone or the
/// network has been silent for kSilence.
void prepareSocket(asio::ip::tcp::socket &socket);

/// The name of the network interface that has this address; empty if none has.
std::string interfaceOf(const asio::ip::address &address);

/// Drops all that comes from now on, acknowledgements included. To both ends it looks as if the network had gone
/// silent.
void muteSocket(asio::ip::tcp::socket &socket);

} // namespace pipec::runtime
