// The limits of links, transfer buffers and memory that a chain of causes (Explain.h) depends on, and the gain from
// raising each: the limit is raised in the plan, and the plan simulated again.
#pragma once

#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"
#include "runtime/simulate/Recording.h"

#include <string>
#include <vector>

namespace pipec::emit {

/// A limit that could be raised.
struct Limit {
  enum class Kind : uint8_t {
    Bandwidth, // bandwidth of the link from `rank` to `peer`, in bytes per second
    Latency,   // latency of the same link, in picoseconds
    Buffers,   // transfer buffers of `rank` for sends to `peer` or receives from it
    Contexts,  // weight contexts that `rank` may keep before its F and B wait for W
  };
  Kind kind = Kind::Bandwidth;
  int32_t rank = 0, peer = -1;
  plan::Direction direction = plan::Direction::Send; // Buffers
  int64_t now = 0, raised = 0;
  plan::Bytes memory = 0; // bytes by which the rank's peak memory grows
  plan::Time held = 0;    // time of the chain that this limit causes
  bool sameAs(const Limit &other) const;
};

/// The gain from raising a single limit.
struct Gain {
  Limit limit;
  plan::Time start = 0; // start of the instruction at the end of the chain; if there is none, end of the step
  plan::Time makespan = 0;
};

/// Finds the gain from raising each limit of the chain that ends with `place`. A link gets twice its bandwidth, or half
/// its latency. Buffers and contexts get one more; if that gains nothing, two more, then four, and so on. At most
/// `most` limits are raised, those that delay the chain longest first.
Status gains(const plan::Variant &variant, const simulate::Recording &recording, const simulate::Occurrence &place,
             size_t most, std::vector<Gain> &gains);

/// The variant with that limit raised: everything in the same order, with the waits that the raised limit requires,
/// without certificate and memory limit.
plan::Variant raised(const plan::Variant &variant, const Limit &limit);

/// "a link from rank 0 to rank 1 of 25 GB/s, not 12.5 GB/s"
std::string describe(const Limit &limit);
/// "bandwidth", "latency", "buffers", "contexts"
const char *name(Limit::Kind kind);

} // namespace pipec::emit
