// Burst parallelism (DeepPool, Park et al., arXiv 2112.10065): each layer of a chain runs on as many ranks as pay off.
// A layer's time depends on its *local batch*; its *width* is the number of ranks that run it. Consecutive layers of
// one width form a *stage*, run by the first `width` ranks, its group. Sample i is on member i mod width.
// Times are picoseconds, sizes bytes, both within runtime/plan/Limits.h; a bandwidth is bytes per second, 0: unlimited.
// Nothing here checks input; the reader of the spec does: samples of entries ascend from at least 1, batch and ranks
// are at least 1. Sums of times saturate at kMostTime, so nothing overflows. Without layers, plans are empty and cost
// nothing.
#pragma once

#include "compiler/schedule/exchange/Replicas.h"
#include "compiler/schedule/model/LocalBatch.h"

#include <cstdint>
#include <vector>

namespace pipec::burst {

using schedule::Bytes;
using schedule::Link;
using schedule::Time;

inline constexpr Time kMostTime = 4 * schedule::kLongest; // cap of a sum of times, and of a device time

using Entry = schedule::TimeOfSamples;
using Times = schedule::TimesBySamples; // by local batch

struct Layer {
  Times forward, backward;
  Bytes gradients = 0; // of its weights
  /// Bytes that it hands to the next layer; the gradient that comes back has the same size.
  Bytes fixed = 0, perSample = 0;
  bool operator==(const Layer &) const = default;
};

/// The all-reduce of gradients on d ranks: a ring has 2(d-1) latencies, a tree 2 ceil(log2 d); both carry 2(d-1)/d of
/// the bytes.
enum class Collective : uint8_t { Ring, Tree };
/// Which widths a layer may have: powers of two, or all, up to the ranks and the batch.
enum class Choices : uint8_t { Powers, All };

struct Problem {
  std::vector<Layer> layers;
  int64_t batch = 1; // samples of a step, which is one microbatch
  int32_t ranks = 1;
  Link link; // between any two ranks
  /// By width - 1: the slowest link between the first `width` ranks; empty: all links are equal.
  std::vector<Link> slowest;
  Collective collective = Collective::Ring;
  Choices choices = Choices::Powers;

  const Link &linkOf(int32_t width) const { return slowest.empty() ? link : slowest[size_t(width) - 1]; }
};

/// By layer: its width.
using Widths = std::vector<int32_t>;

/// The time of a step, and its device time: ranks × time for which it occupies them. Collectives are included: an
/// all-reduce occupies its group, a reshard the wider group. All-reduces run one after the other after the backwards
/// (sync at the end), so both are sums.
struct Cost {
  Time time = 0, device = 0;
  bool operator==(const Cost &) const = default;
};

struct Plan {
  Widths widths;
  Cost cost;
  bool operator==(const Plan &) const = default;
};

} // namespace pipec::burst
