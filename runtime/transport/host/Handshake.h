// How two processes of a job know each other. Both say who they are. Then the caller proves that it holds the job's
// secret, then the listener does; before the caller's proof nothing derived from the secret leaves the listener. The
// secret itself never travels. Under keys of their own (Seal.h) both then say what they must agree on. Who does not
// hold the secret, or is of another job, is a stranger and no reason to end anything. Who holds it and differs is a
// mistake in the job: both ends then end, with the same message, which names both values.
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
  std::array<uint8_t, 32> plan{}; // hash of the plan's file
  int64_t steps = 0;              // asked for
  Key secret{};                   // as a key: stretched, or random
  bool guarded = true;            // by the secret; false: --no-secret, the same on all
};

struct Greeting {
  Status status;        // names both values of what differs
  int32_t peer = -1;    // its rank, as it says; -1: it does not speak the protocol
  bool stranger = true; // has not proven to be of this job
  bool sameJob = false; // but says that it is
  bool lost = false;    // the connection ended before the handshake did
  Session session;      // for what follows
};

/// The handshake on a connection just made, over when the other end is done or gone; it has no deadline of its own.
asio::awaitable<Greeting> greet(asio::ip::tcp::socket &socket, const Identity &self, wire::Side side);

} // namespace pipec::runtime
