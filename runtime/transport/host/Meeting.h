// How the processes of a job find each other: every pair of ranks that talk gets one TCP connection, opened by the
// lower rank and proven by a handshake. Both ends say who they are (job, world size, protocol, plan), compare, and
// prove by challenge and response that they hold the same secret, which itself never travels.
#pragma once

#include "runtime/plan/Status.h"
#include "runtime/transport/host/Wire.h"

#include <asio.hpp>
#include <map>

namespace pipec::runtime {

struct Identity {
  int32_t rank = 0;
  int32_t world = 0;
  uint32_t protocol = wire::kProtocol;
  std::array<uint8_t, 16> job{};
  std::array<uint8_t, 32> plan{};   // hash of the plan's file
  std::array<uint8_t, 32> secret{}; // key of crypto_auth
};

/// The handshake on a connection just made; `peer` is who is there. The status names both values of what differs.
struct Greeting {
  Status status;
  int32_t peer = -1;
  bool stranger = false; // does not speak the protocol at all: not of this job, so no reason to end it
};
asio::awaitable<Greeting> greet(asio::ip::tcp::socket &socket, const Identity &self);

using Sockets = std::map<int32_t, asio::ip::tcp::socket>; // by peer

/// Connects to all `peers`, whose endpoints are given for the ranks above this one; those below come to `acceptor`,
/// which listens. Work happens on the acceptor's io_context, which another thread runs. Blocks until all are there, one
/// is refused, or `deadline` (0: none) has passed; the status then says which are missing.
Status meet(const Identity &self, asio::ip::tcp::acceptor acceptor,
            const std::map<int32_t, asio::ip::tcp::endpoint> &peers, std::chrono::milliseconds deadline,
            Sockets &sockets);

/// Listens on loopback, on a port that the system chooses.
Status listenOnLoopback(asio::ip::tcp::acceptor &acceptor);

} // namespace pipec::runtime
