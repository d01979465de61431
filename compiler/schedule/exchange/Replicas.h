// Replicas of a pipeline (data parallelism): what each layer's gradients and weights weigh, and what a collective over
// the replicas of a rank takes. Replicas run one program, so one of them stands for all.
#pragma once

#include "compiler/schedule/model/Problem.h"
#include "runtime/plan/Limits.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace pipec::schedule {

/// No step may be longer: what a collective takes, and what several do, stays in 64 bits.
inline constexpr Time kLongest = limits::kTime;
/// `now` and what takes so long; never more than a few times kLongest.
inline Time later(Time now, Time by) { return std::min(now + by, 4 * kLongest); }

/// What a collective takes: `hops` times a start and 1/`parts` of the bytes at a bandwidth (bytes a second; 0:
/// unlimited). A ring of n goes in n - 1 hops of 1/n each for either half of an all-reduce, in twice as many for the
/// whole; one that was measured in one hop of all bytes.
struct CollectiveTime {
  Time start = 0;
  int64_t bandwidth = 0;
  int32_t hops = 1, parts = 1;

  /// kLongest where it is more than that.
  Time of(Bytes bytes) const;
  /// The same measured values for a half of the collective.
  CollectiveTime half() const;
};

/// What the all-reduce of a gradient norm takes over all processes, so many on each rank, which `link` ties to each
/// other: as globalNormTime(), where the slowest hop may be such a link. kLongest where it is more than that.
Time normTimeOf(const Problem &problem, int32_t onEachRank, const Link &link);

/// The three collectives of a ring of `degree` processes, each linked to the next.
struct CollectiveTimes {
  CollectiveTime allReduce, reduceScatter, allGather;
};
CollectiveTimes ringOf(int32_t degree, const Link &link);

/// A layer as the exchange of gradients sees it; times of one microbatch, the update's of a step.
struct ExchangedLayer {
  Time forward = 0, backward = 0, backwardInput = 0, backwardWeight = 0;
  Time update = 0;            // of all of it
  std::vector<Bytes> tensors; // gradients, in the order of the forward
  Bytes weights = 0;          // what a gather moves where the layer is sharded
  Bytes state = 0;            // of the optimizer

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
  bool mayShard = true;     // updates and state of decoupled layers may be divided among the replicas
  bool sharesPort = false;  // collectives and the rank's transfers take turns
  Time round = 0;           // of a coordinator that is asked before a collective
  std::optional<Time> norm; // of the all-reduce of a gradient norm over all processes; absent: there is none
  std::vector<std::vector<ExchangedLayer>> layers; // of each stage
  std::vector<Time> sharedTimes; // of the sum of each shared weight (Problem::shared) over all holders

  /// What an update of a layer takes on each replica.
  Time updateOf(const ExchangedLayer &layer, bool sharded) const {
    return sharded ? (layer.update + degree / 2) / degree : layer.update;
  }
  /// What a sharded layer's state takes less on the replica that has most of it.
  Bytes savedOf(const ExchangedLayer &layer) const { return layer.state - (layer.state + degree - 1) / degree; }
};

/// What the sums of a problem's shared weights take, over all replicas of the ranks that hold them.
std::vector<Time> sharedTimesOf(const Problem &problem, const Replicas &replicas);

} // namespace pipec::schedule
