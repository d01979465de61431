// A solution of the exchange problem: the bytes of gradients in each collective, and the order of the collectives.
// Policies make an Exchange. A judge (in the driver: simulation of the resulting plan) finds its time. Programs are
// made from it.
#pragma once

#include "compiler/schedule/exchange/Replicas.h"

#include <compare>
#include <optional>
#include <string>
#include <vector>

namespace pipec::schedule {

/// A collective of a rank with its replicas: a sum of gradients (all-reduce, reduce-scatter), or a gather of the
/// results of sums or of updates of shares.
struct Collective {
  plan::Kind kind = plan::Kind::AllReduce;
  int32_t stage = 0;
  int32_t firstLayer = 0, layers = 0; // layers of the stage with bytes in the collective
  Bytes begin = 0, end = 0;           // only for an all-reduce: byte range in the stage's gradients, laid end to end
  Time rounds = 0;                    // time spent in rounds of a coordinator, part of the collective's time
  int32_t lastLayer() const { return firstLayer + layers - 1; }
  bool isSum() const { return plan::sums(kind); }
  bool operator==(const Collective &) const = default;
};

/// When weights are updated.
enum class Updates : uint8_t {
  Stages, // a stage at once, after all sums of its rank, on the compute queue
  Layers, // on a separate queue, layer by layer, as soon as a collective completes the layer
};

struct Exchange {
  std::vector<std::vector<Collective>> queues; // by rank, in the order of issue
  Updates updates = Updates::Layers;
  /// Decoupled layers: each replica updates its share between sum and gather; false: updates follow the gather.
  bool sharded = false;
  bool atEnd = false;   // sums begin after all backwards of the rank
  bool barrier = false; // gathers begin after all sums and backwards of the rank
  /// DeAR: the next step's forward issues the gathers, one layer ahead of where it is. Such a step leaves updates to
  /// the next step, so it is only simulated among other steps and no plan is made of it.
  bool ahead = false;
  /// By rank: how many W at the end of its word are cut into layers, which run in the order in which the next forward
  /// needs them. Empty: only the last W of each stage is cut.
  std::vector<int32_t> tails;
  bool operator==(const Exchange &) const = default;
};

/// When the gradients of each layer are ready, on a rank that never waits: by stage and layer, in picoseconds since the
/// rank's step began.
using Ready = std::vector<std::vector<Time>>;

/// The byte offset of each layer in its stage's gradients, and the end of the last layer.
std::vector<Bytes> offsetsOf(const std::vector<ExchangedLayer> &layers);

} // namespace pipec::schedule
