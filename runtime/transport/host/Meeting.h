// How the processes of a job find each other: every pair of ranks that talk gets one TCP connection, opened by the
// lower rank and proven by a handshake (Handshake.h).
#pragma once

#include "runtime/transport/host/Handshake.h"

#include <asio.hpp>
#include <map>

namespace pipec::runtime {

/// A connection with a peer, and what its frames are sealed with; without keys between sockets of one process.
struct Line {
  Line(asio::ip::tcp::socket socket, Session session = {}) : socket(std::move(socket)), session(std::move(session)) {}
  asio::ip::tcp::socket socket;
  Session session;
};
using Sockets = std::map<int32_t, Line>; // by peer

/// Connects to all `peers`, whose endpoints are given for the ranks above this one; those below come to `acceptor`,
/// which listens. Work happens on the acceptor's io_context, which another thread runs. Blocks until all are there, one
/// differs, or `deadline` (0: none) has passed; the status then says which are missing. Strangers change nothing.
Status meet(const Identity &self, asio::ip::tcp::acceptor acceptor,
            const std::map<int32_t, asio::ip::tcp::endpoint> &peers, std::chrono::milliseconds deadline,
            Sockets &sockets);

/// Listens on loopback, on a port that the system chooses.
Status listenOnLoopback(asio::ip::tcp::acceptor &acceptor);

} // namespace pipec::runtime
