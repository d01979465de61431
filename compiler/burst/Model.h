// Burst parallelism (DeepPool, Park et al., arXiv 2112.10065): each layer of a chain runs on as many ranks as pay. What
// a layer takes depends on its *local batch*; a *width* is the number of ranks that run it. Consecutive layers of one
// width are a *stage*, run by the first ranks of all: its group. Sample i is on member i mod width.
// Times are picoseconds, sizes bytes, both within runtime/plan/Limits.h; a bandwidth is bytes a second, 0: unlimited.
// Nothing here checks input, whoever reads a spec does: samples of entries ascend from at least 1, batch and ranks are
// at least 1. Sums of times stay at kMostTime, so nothing overflows. Without layers, plans are empty and take nothing.
#pragma once

#include "compiler/schedule/exchange/Replicas.h"
#include "compiler/schedule/model/LocalBatch.h"

#include <cstdint>
#include <vector>

namespace pipec::burst {

using schedule::Bytes;
using schedule::Link;
using schedule::Time;

inline constexpr Time kMostTime = 4 * schedule::kLongest; // of a sum of times, and of a device time

using Entry = schedule::TimeOfSamples;
using Times = schedule::TimesBySamples; // by local batch

struct Layer {
  Times forward, backward;
  Bytes gradients = 0;            // of its weights
  Bytes fixed = 0, perSample = 0; // what it hands to the next layer; the gradient that comes back has this size too
  bool operator==(const Layer &) const = default;
};

/// Of gradients: a ring has 2(d-1) latencies, a tree 2 ceil(log2 d); both carry 2(d-1)/d of the bytes.
enum class Collective : uint8_t { Ring, Tree };
/// Which widths a layer may have: powers of two, or all, up to the ranks and the batch.
enum class Choices : uint8_t { Powers, All };

struct Problem {
  std::vector<Layer> layers;
  int64_t batch = 1; // of a step, all of which is one microbatch
  int32_t ranks = 1;
  Link link;                 // between any two ranks
  std::vector<Link> slowest; // by width - 1: of those between the first so many ranks; empty: all are alike
  Collective collective = Collective::Ring;
  Choices choices = Choices::Powers;

  const Link &linkOf(int32_t width) const { return slowest.empty() ? link : slowest[size_t(width) - 1]; }
};

/// A width a layer.
using Widths = std::vector<int32_t>;

/// What a step takes, and ranks × time that it keeps them, collectives included: all-reduces of their group, a reshard
/// of the wider one. All-reduces run one by one behind the backwards (sync at the end), so both are sums.
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
