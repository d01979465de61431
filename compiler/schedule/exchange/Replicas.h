// Replicas of a pipeline (data parallelism): the sizes of each layer's gradients and weights, and the time of a
// collective over the replicas of a rank. All replicas run the same program, so one replica stands for all.
#pragma once

#include "compiler/schedule/model/Problem.h"
#include "runtime/plan/Limits.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace pipec::schedule {

/// The longest step allowed. Within this limit the time of a collective, and the sum of several, fits into 64 bits.
inline constexpr Time kLongest = limits::kTime;
/// now + by, capped at a few times kLongest.
inline Time later(Time now, Time by) { return std::min(now + by, 4 * kLongest); }

/// The time of a collective: `hops` times a start latency plus 1/`parts` of the bytes at `bandwidth` (bytes per second;
/// 0: unlimited). A ring of n takes n - 1 hops of 1/n of the bytes for either half of an all-reduce, and twice as many
/// for the whole. A measured collective counts as one hop of all bytes.
struct CollectiveTime {
  Time start = 0;
  int64_t bandwidth = 0;
  int32_t hops = 1, parts = 1;

  /// The time for this many bytes, at most kLongest.
  Time of(Bytes bytes) const;
  /// The same measured values, for half of an all-reduce.
  CollectiveTime half() const;
};

/// The time of the all-reduce of a gradient norm over all processes: `onEachRank` processes per rank, connected by
/// `link`. Like globalNormTime(), except that the slowest hop may be such a link. At most kLongest.
Time normTimeOf(const Problem &problem, int32_t onEachRank, const Link &link);

/// The three collectives of a ring of `degree` processes, each linked to the next.
struct CollectiveTimes {
  CollectiveTime allReduce, reduceScatter, allGather;
};
CollectiveTimes ringOf(int32_t degree, const Link &link);

/// A layer as the exchange of gradients sees it. Times are those of one microbatch; `update` is the time per step.
struct ExchangedLayer {
  Time forward = 0, backward = 0, backwardInput = 0, backwardWeight = 0;
  Time update = 0;            // update of the whole layer
  std::vector<Bytes> tensors; // gradients, in the order of the forward
  Bytes weights = 0;          // bytes that a gather moves if the layer is sharded
  Bytes state = 0;            // bytes of optimizer state

  Bytes gradients() const {
    Bytes all = 0;
    for (const Bytes each : tensors)
      all += each;
    return all;
  }
};

struct Replicas {
  int32_t degree = 1;
  CollectiveTimes times;
  bool mayShard = true;     // updates and optimizer state of decoupled layers may be divided among the replicas
  bool sharesPort = false;  // collectives and the rank's transfers share a port and take turns
  Time round = 0;           // time to ask a coordinator before a collective
  std::optional<Time> norm; // all-reduce of a gradient norm over all processes; absent: none
  std::vector<std::vector<ExchangedLayer>> layers; // by stage
  std::vector<Time> sharedTimes; // time of the sum of each shared weight (Problem::shared), over all its holders

  /// The time of a layer's update on each replica.
  Time updateOf(const ExchangedLayer &layer, bool sharded) const {
    return sharded ? (layer.update + degree / 2) / degree : layer.update;
  }
  /// The bytes that sharding saves of a layer's state, on the replica that keeps most of the state.
  Bytes savedOf(const ExchangedLayer &layer) const { return layer.state - (layer.state + degree - 1) / degree; }
};

/// The times of the sums of a problem's shared weights, over all replicas of the ranks that hold them.
std::vector<Time> sharedTimesOf(const Problem &problem, const Replicas &replicas);

} // namespace pipec::schedule
