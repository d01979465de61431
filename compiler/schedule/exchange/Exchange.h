// A solution of the exchange: which bytes of which gradients go in which collective, and in which order. It is a value
// that policies make, a judge prices (the driver: the plan that it gives, walked), and programs are made of.
#pragma once

#include "compiler/schedule/exchange/Replicas.h"

#include <compare>
#include <optional>
#include <string>
#include <vector>

namespace pipec::schedule {

/// A collective of a rank with its replicas: a sum of gradients (all-reduce, reduce-scatter), or a gather of what the
/// sums, or the updates of shares, have made.
struct Collective {
  plan::Kind kind = plan::Kind::AllReduce;
  int32_t stage = 0;
  int32_t firstLayer = 0, layers = 0; // of the stage; all that have bytes in it
  Bytes begin = 0, end = 0;           // of an all-reduce: of the stage's gradients, laid end to end
  Time rounds = 0;                    // of a coordinator, part of its time
  int32_t lastLayer() const { return firstLayer + layers - 1; }
  bool isSum() const { return plan::sums(kind); }
  bool operator==(const Collective &) const = default;
};

/// When weights are updated.
enum class Updates : uint8_t {
  Stages, // a stage at once, behind all sums of its rank, on the compute queue
  Layers, // on a queue of their own: what a collective completes, as soon as it has
};

struct Exchange {
  std::vector<std::vector<Collective>> queues; // of each rank, in the order of issue
  Updates updates = Updates::Layers;
  bool sharded = false; // decoupled layers: updates of shares come between sum and gather; else behind the gather
  bool atEnd = false;   // sums begin when all backwards of the rank are done
  bool barrier = false; // gathers begin when all sums and backwards of the rank are done
  /// DeAR: gathers are issued by the next step's forward, one ahead of the layers that it has come to. Such a step
  /// leaves updates to the next one, so it is simulated among others and is no plan.
  bool ahead = false;
  /// Of each rank: so many W at the end of its word are cut into layers, which run in the order in which the next
  /// forward needs them. Empty: none but the last W of each stage is cut.
  std::vector<int32_t> tails;
  bool operator==(const Exchange &) const = default;
};

/// When the gradients of each layer are there, on a rank that waits for nobody: by stage and layer; picoseconds since
/// the rank's step began.
using Ready = std::vector<std::vector<Time>>;

/// Where the layers of a stage begin in its gradients; and their end.
std::vector<Bytes> offsetsOf(const std::vector<ExchangedLayer> &layers);

} // namespace pipec::schedule
