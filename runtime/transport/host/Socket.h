// Settings of a socket between processes of a job.
#pragma once

#include <asio.hpp>

namespace pipec::runtime {

/// For how long a peer may be silent on the network before its connection ends with timed_out.
inline constexpr int kSilence = 3; // seconds

/// Small messages leave at once; a peer that is gone, or a network that has gone silent, is noticed.
void prepareSocket(asio::ip::tcp::socket &socket);

/// From now on nothing that comes is taken, acknowledgements included, and nobody is told: for this end and the other
/// the network has gone silent.
void muteSocket(asio::ip::tcp::socket &socket);

} // namespace pipec::runtime
