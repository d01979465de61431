// The meeting of a job's processes. Each pair of processes that exchange data gets one TCP connection. The lower rank
// opens it, and a handshake proves who is at each end (Handshake.h).
#pragma once

#include "runtime/device/Failure.h"
#include "runtime/transport/host/Handshake.h"

#include <asio.hpp>
#include <map>

namespace pipec::runtime {

/// A connection with a peer, and the keys that seal what is said on it. Sockets within one process have no keys.
struct Line {
  Line(asio::ip::tcp::socket socket, Session session = {}) : socket(std::move(socket)), session(std::move(session)) {}
  asio::ip::tcp::socket socket;
  Session session;
};
using Sockets = std::map<int32_t, Line>; // by peer

/// Connects with all `peers`: dials the endpoints of ranks above this one, and waits for those below at `acceptor`,
/// which must be listening. Work happens on the acceptor's io_context, which another thread must run. Blocks until all
/// peers are there, one differs, or `deadline` (0: none) has passed; the status then says which are missing. Strangers
/// change nothing. A failure ends it.
Status meet(const Identity &self, asio::ip::tcp::acceptor acceptor,
            const std::map<int32_t, asio::ip::tcp::endpoint> &peers, std::chrono::milliseconds deadline,
            Sockets &sockets, Failure *failure = nullptr);

/// Listens on loopback, on a port that the system chooses.
Status listenOnLoopback(asio::ip::tcp::acceptor &acceptor);

} // namespace pipec::runtime
