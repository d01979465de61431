// How the sockets between processes of a job are made, and their settings.
#pragma once

#include <asio.hpp>

namespace pipec::runtime {

/// For how many seconds a peer may be silent on the network before its connection ends with timed_out.
inline constexpr int kSilence = 3;

/// Keeps programs that this process starts from inheriting the descriptor. Asio does not do that.
void closeOnExec(int descriptor);

/// Opens the acceptor and listens there. `reuses`: even if a connection of an earlier run lingers.
std::error_code listenAt(asio::ip::tcp::acceptor &acceptor, const asio::ip::tcp::endpoint &endpoint,
                         bool reuses = false);

/// Opens the socket and connects it.
asio::awaitable<std::error_code> connectTo(asio::ip::tcp::socket &socket, asio::ip::tcp::endpoint endpoint);

/// Sets a socket so that small messages leave at once, and that reading or writing fails if the peer is gone or the
/// network has been silent for kSilence.
void prepareSocket(asio::ip::tcp::socket &socket);

/// The name of the network interface that has this address; empty if none has.
std::string interfaceOf(const asio::ip::address &address);

/// Drops everything that comes from now on, acknowledgements included. To both ends the network seems to have gone
/// silent.
void muteSocket(asio::ip::tcp::socket &socket);

} // namespace pipec::runtime
