// The handshake with which two processes of a job authenticate each other on a new connection. The caller is the end
// that dialled, the listener the other. Both say who they are. Then the caller proves that it holds the job's secret,
// and after it the listener does. The secret itself never travels, and before the caller's proof the listener sends
// nothing derived from it. Under keys of this connection (Seal.h) both then say what they must agree on, such as the
// plan.
//
// An end that does not hold the secret, or belongs to another job, is a stranger: the run goes on. An end that holds
// the secret but differs is a mistake in the job. Both ends then end with the same message, which names both values.
#pragma once

#include "runtime/plan/Place.h"
#include "runtime/plan/Status.h"
#include "runtime/transport/host/Wire.h"

#include <asio.hpp>

namespace pipec::runtime {

struct Identity {
  int32_t rank = 0; // world rank
  int32_t world = 0;
  plan::Grid grid = {}; // of the plan, for messages
  uint32_t protocol = wire::kProtocol;
  std::array<uint8_t, 16> job{};
  std::array<uint8_t, 32> plan{}; // hash of the plan's file
  int64_t steps = 0;              // --steps
  Key secret{};                   // the job's secret as a key: stretched, or random
  bool guarded = true;            // whether the job has a secret; false: --no-secret

  /// The name of a process in messages.
  std::string nameOf(int32_t process) const { return plan::processName(process, grid); }
  std::string name() const { return nameOf(rank); }
};

/// What an end knows about the other after a handshake.
struct Greeting {
  Status status;        // what went wrong; if the ends differ, it names both values
  int32_t peer = -1;    // the rank that the other end says it is; -1: it does not speak the protocol
  bool stranger = true; // whether it has not proven to be of this job
  bool sameJob = false; // whether it says that it is of this job
  bool lost = false;    // whether the connection ended before the handshake did
  Session session;      // the keys for all that follows
};

/// Shakes hands on a new connection. It ends when the other end is done or gone, and has no deadline of its own.
asio::awaitable<Greeting> greet(asio::ip::tcp::socket &socket, const Identity &self, wire::Side side);

} // namespace pipec::runtime
