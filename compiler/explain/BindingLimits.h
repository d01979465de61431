// The limits of links, transfer buffers and memory that a chain of causes (Explain.h) rests on, and what more of each
// would gain: each is raised in the plan, which is then simulated again.
#pragma once

#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"
#include "runtime/simulate/Recording.h"

#include <string>
#include <vector>

namespace pipec::emit {

/// A resource of which there could be more.
struct Limit {
  enum class Kind : uint8_t {
    Bandwidth, // of the link from `rank` to `peer`, in bytes a second
    Latency,   // likewise, in picoseconds
    Buffers,   // of `rank`, for what it sends to `peer` or receives from it
    Contexts,  // weight contexts that `rank` may keep before its F and B wait for W
  };
  Kind kind = Kind::Bandwidth;
  int32_t rank = 0, peer = -1;
  plan::Direction direction = plan::Direction::Send; // Buffers
  int64_t now = 0, raised = 0;
  plan::Bytes memory = 0; // by which the rank's peak grows
  plan::Time held = 0;    // for how much of the chain's time it is the cause
  bool sameAs(const Limit &other) const;
};

/// What raising a limit alone gains.
struct Gain {
  Limit limit;
  plan::Time start = 0; // when the instruction at the end of the chain starts; if there is none, when the step ends
  plan::Time makespan = 0;
};

/// What raising each limit of the chain that ends with `place` gains. A link gets twice its bandwidth, or half its
/// latency. Buffers and contexts get one more; where that gains nothing two more, then four, and so on. At most `most`
/// limits, those first that hold up the chain longest.
Status gains(const plan::Variant &variant, const simulate::Recording &recording, const simulate::Occurrence &place,
             size_t most, std::vector<Gain> &gains);

/// The variant with that limit raised: the same order of everything, with the waits that the raised limit asks for,
/// without certificate and memory limit.
plan::Variant raised(const plan::Variant &variant, const Limit &limit);

/// "a link from rank 0 to rank 1 of 25 GB/s, not 12.5 GB/s"
std::string describe(const Limit &limit);
/// "bandwidth", "latency", "buffers", "contexts"
const char *name(Limit::Kind kind);

} // namespace pipec::emit
