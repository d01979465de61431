// How two processes of a job know each other. Both say who they are (job, world size, protocol, plan) and prove by
// challenge and response that they hold the same secret, which itself never travels; then both compare. Who does not
// hold the secret, or is of another job, is a stranger and no reason to end anything; who does and differs is a mistake
// in the job, which ends both ends with a message that names both values.
#pragma once

#include "runtime/plan/Status.h"
#include "runtime/transport/host/Wire.h"

#include <asio.hpp>

namespace pipec::runtime {

struct Identity {
  int32_t rank = 0;
  int32_t world = 0;
  uint32_t protocol = wire::kProtocol;
  std::array<uint8_t, 16> job{};
  std::array<uint8_t, 32> plan{};   // hash of the plan's file
  std::array<uint8_t, 32> secret{}; // key of crypto_auth
};

struct Greeting {
  Status status;        // names both values of what differs
  int32_t peer = -1;    // its rank, as it says; -1: it does not speak the protocol
  bool stranger = true; // not of this job, as far as is known
  bool lost = false;    // the connection ended before the handshake did
};

/// The handshake on a connection just made, over when the other end is done or gone; it has no deadline of its own.
asio::awaitable<Greeting> greet(asio::ip::tcp::socket &socket, const Identity &self, wire::Side side);

} // namespace pipec::runtime
