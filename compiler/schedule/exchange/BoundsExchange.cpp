#include "compiler/schedule/exchange/BoundsExchange.h"

#include <algorithm>

namespace pipec::schedule {
namespace {

/// The least time on the wire of so many bytes of gradients, and of the weights that a gather moves in their place.
Time leastWire(const Replicas &replicas, const MayExchange &may, Bytes gradients, Bytes weights) {
  if (gradients == 0)
    return 0;
  const Bytes gathered = replicas.mayShard ? std::min(gradients, weights) : gradients;
  const Time whole = replicas.times.allReduce.of(gradients);
  const Time halves = replicas.times.reduceScatter.of(gradients) + replicas.times.allGather.of(gathered);
  return !may.decoupled ? whole : !may.whole ? halves : std::min(whole, halves);
}

/// The least of an update of a layer. One without gradients is sharded with its neighbours, where a bundle has all.
Time leastUpdate(const Replicas &replicas, const MayExchange &may, const ExchangedLayer &layer) {
  return replicas.updateOf(layer, replicas.mayShard && may.decoupled);
}

Time roundOf(const Problem &problem, const Replicas &replicas, const MayExchange &may, size_t s) {
  const std::vector<ExchangedLayer> &layers = replicas.layers[s];
  const Stage &stage = problem.stages[s];
  const bool split = problem.backward == BackwardMode::Split;
  const __int128 others = __int128(problem.microbatches - 1) * (stage.forward + problem.leastBackwardTime(stage));
  Time before = 0, backwardBefore = 0; // of the layers below l: their forward, their part of a whole backward
  Time leastWeights = INT64_MAX;       // of a W of a layer up to l
  Bytes gradients = 0, weights = 0;
  __int128 best = 0;
  for (const ExchangedLayer &layer : layers) {
    gradients += layer.gradients();
    weights += layer.weights;
    if (layer.gradients() > 0)
      leastWeights = std::min(leastWeights, layer.backwardWeight);
    __int128 inner = others + (stage.forward - before);
    const Time whole = stage.backward - backwardBefore; // the last backward, down to layer l
    if (problem.mixed)
      inner += std::min(stage.backwardInput, whole);
    else if (split)
      inner += stage.backwardInput + (leastWeights == INT64_MAX ? 0 : __int128(problem.microbatches) * leastWeights);
    else
      inner += whole;
    best = std::max(best, inner + leastWire(replicas, may, gradients, weights));
    before += layer.forward;
    backwardBefore += layer.backward;
  }
  return Time(std::min<__int128>(best, INT64_MAX));
}

} // namespace

Time exchangeBound(const Problem &problem, const Replicas &replicas, const MayExchange &may) {
  Time bound = 0;
  for (const std::vector<int32_t> &stages : problem.stagesByRank()) {
    __int128 wire = 0, work = 0;
    for (const int32_t s : stages) {
      const Stage &stage = problem.stages[size_t(s)];
      Bytes gradients = 0, weights = 0;
      for (const ExchangedLayer &layer : replicas.layers[size_t(s)]) {
        gradients += layer.gradients();
        weights += layer.weights;
        work += leastUpdate(replicas, may, layer);
      }
      wire += leastWire(replicas, may, gradients, weights);
      work += __int128(problem.microbatches) *
              (stage.forward + problem.leastBackwardTime(stage) + problem.leastWeightTime(stage));
      bound = std::max(bound, roundOf(problem, replicas, may, size_t(s)));
    }
    bound = std::max({bound, Time(std::min<__int128>(wire, INT64_MAX)), Time(std::min<__int128>(work, INT64_MAX))});
  }
  return bound;
}

} // namespace pipec::schedule
