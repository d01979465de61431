#include "compiler/schedule/exchange/Bundles.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace pipec::schedule {

std::vector<Bytes> offsetsOf(const std::vector<ExchangedLayer> &layers) {
  std::vector<Bytes> offsets{0};
  for (const ExchangedLayer &layer : layers)
    offsets.push_back(offsets.back() + layer.gradients());
  return offsets;
}

std::vector<Piece> tensorsOf(const ExchangeInput &input, size_t rank) {
  std::vector<Piece> pieces;
  for (const int32_t stage : input.stagesByRank[rank]) {
    const std::vector<ExchangedLayer> &layers = input.replicas.layers[size_t(stage)];
    Bytes end = offsetsOf(layers).back();
    for (int32_t layer = int32_t(layers.size()) - 1; layer >= 0; --layer)
      for (auto bytes = layers[size_t(layer)].tensors.rbegin(); bytes != layers[size_t(layer)].tensors.rend();
           ++bytes) {
        if (*bytes > 0)
          pieces.push_back({stage, layer, end - *bytes, end, input.ready[size_t(stage)][size_t(layer)]});
        end -= *bytes;
      }
  }
  std::sort(pieces.begin(), pieces.end(), [](const Piece &one, const Piece &other) {
    return std::tuple(one.ready, one.stage, other.end, other.begin) <
           std::tuple(other.ready, other.stage, one.end, one.begin);
  });
  return pieces;
}

void Bundler::add(const Piece &piece) {
  const bool below = piece.end == now.begin, above = piece.begin == now.end;
  if (open && (piece.stage != now.stage || (!below && !above)))
    close();
  if (!open) {
    now = piece;
    lastLayer = piece.layer;
    open = true;
  } else if (below) {
    now.begin = piece.begin;
    now.layer = piece.layer;
  } else {
    now.end = piece.end;
    lastLayer = piece.layer;
  }
}

void Bundler::close() {
  if (open)
    into.push_back({plan::Kind::AllReduce, now.stage, now.layer, lastLayer - now.layer + 1, now.begin, now.end, 0});
  open = false;
}

std::vector<int32_t> bundlesBelow(const std::vector<ExchangedLayer> &layers, Bytes size) {
  std::vector<int32_t> first{0};
  Bytes bytes = 0;
  for (size_t layer = 0; layer != layers.size(); ++layer) {
    const Bytes own = layers[layer].gradients();
    if (int32_t(layer) != first.back() && bytes > 0 && own > 0 && bytes + own > size) {
      first.push_back(int32_t(layer));
      bytes = 0;
    }
    bytes += own;
  }
  return first;
}

namespace {

/// A collective that waits for its turn.
struct Waiting {
  Collective collective;
  Time ready = 0;                   // when it can begin
  std::pair<int32_t, int32_t> need; // stage and first layer
};

class Queue {
public:
  Queue(const ExchangeInput &input, const Bundling &bundling, bool sharded, size_t rank)
      : input(input), sharded(sharded), patience(bundling.patience) {
    for (const int32_t stage : input.stagesByRank[rank])
      add(stage, bundling.stages[size_t(stage)]);
  }

  std::vector<Collective> run() {
    std::vector<Collective> order;
    Time now = 0;
    while (!waiting.empty()) {
      Time first = waiting.front().ready;
      for (const Waiting &each : waiting)
        first = std::min(first, each.ready);
      now = std::max(now, first);
      size_t best = waiting.size();
      for (size_t i = 0; i != waiting.size(); ++i)
        if (waiting[i].ready <= now && (best == waiting.size() || waiting[i].need < waiting[best].need))
          best = i;
      const Collective next = waiting[best].collective;
      if (const Time sooner = neededSooner(waiting[best], now); sooner > now) {
        now = sooner;
        continue;
      }
      waiting.erase(waiting.begin() + ptrdiff_t(best));
      now = later(now, timeOf(next));
      order.push_back(next);
      if (next.kind == plan::Kind::ReduceScatter)
        summed(next, now);
    }
    return order;
  }

private:
  /// When something is ready for which this one should wait; 0: nothing is.
  Time neededSooner(const Waiting &own, Time now) const {
    Time first = 0;
    const Time most = now + Time(__int128(timeOf(own.collective)) * patience / 100);
    for (const Waiting &each : waiting)
      if (each.need < own.need && each.ready < most && (first == 0 || each.ready < first))
        first = each.ready;
    return first;
  }

  Time timeOf(const Collective &c) const {
    const CollectiveTimes &times = input.replicas.times;
    return c.rounds + (c.kind == plan::Kind::AllReduce       ? times.allReduce
                       : c.kind == plan::Kind::ReduceScatter ? times.reduceScatter
                                                             : times.allGather)
                          .of(c.end - c.begin);
  }

  Collective of(plan::Kind kind, int32_t stage, int32_t first, int32_t last) const {
    const std::vector<ExchangedLayer> &layers = input.replicas.layers[size_t(stage)];
    Bytes bytes[2] = {0, 0};
    for (int32_t layer = 0; layer != last; ++layer) {
      const ExchangedLayer &own = layers[size_t(layer)];
      bytes[layer >= first] += kind == plan::Kind::AllGather && sharded ? own.weights : own.gradients();
    }
    return {kind, stage, first, last - first, bytes[0], bytes[0] + bytes[1], 0};
  }

  void add(int32_t stage, const StageBundles &bundles) {
    const auto layers = int32_t(input.replicas.layers[size_t(stage)].size());
    const auto endOf = [&](const std::vector<int32_t> &firsts, size_t i) {
      return i + 1 == firsts.size() ? layers : firsts[i + 1];
    };
    for (size_t i = 0; i != bundles.sums.size(); ++i) {
      const int32_t first = bundles.sums[i], last = endOf(bundles.sums, i);
      const bool whole = bundles.whole[i];
      const Collective sum = of(whole ? plan::Kind::AllReduce : plan::Kind::ReduceScatter, stage, first, last);
      Time ready = 0;
      for (int32_t layer = first; layer != last; ++layer)
        if (input.replicas.layers[size_t(stage)][size_t(layer)].gradients() > 0)
          ready = std::max(ready, input.ready[size_t(stage)][size_t(layer)]);
      if (sum.end > sum.begin)
        waiting.push_back({sum, ready, {stage, first}});
    }
    // A gather covers no layer of an all-reduce.
    for (size_t i = 0; i != bundles.gathers.size(); ++i) {
      int32_t first = -1;
      const auto close = [&](int32_t end) {
        if (first >= 0)
          if (const Collective gather = of(plan::Kind::AllGather, stage, first, end); gather.end > gather.begin)
            gathers.push_back(gather);
        first = -1;
      };
      for (int32_t layer = bundles.gathers[i]; layer != endOf(bundles.gathers, i); ++layer) {
        const size_t sum =
            size_t(std::upper_bound(bundles.sums.begin(), bundles.sums.end(), layer) - bundles.sums.begin() - 1);
        if (bundles.whole[sum])
          close(layer);
        else if (first < 0)
          first = layer;
      }
      close(endOf(bundles.gathers, i));
    }
    for (size_t i = open.size(); i != gathers.size(); ++i)
      open.push_back(gathers[i].layers);
    for (int32_t layer = 0; layer != layers; ++layer) // those without gradients need no sum
      if (input.replicas.layers[size_t(stage)][size_t(layer)].gradients() == 0)
        note(stage, layer, 0);
  }

  void note(int32_t stage, int32_t layer, Time now) {
    for (size_t i = 0; i != gathers.size(); ++i)
      if (Collective &gather = gathers[i];
          gather.stage == stage && layer >= gather.firstLayer && layer <= gather.lastLayer() && --open[i] == 0)
        waiting.push_back({gather, now, {stage, gather.firstLayer}});
  }

  void summed(const Collective &sum, Time now) {
    Time update = 0;
    if (sharded)
      for (int32_t layer = sum.firstLayer; layer <= sum.lastLayer(); ++layer)
        update += input.replicas.updateOf(input.replicas.layers[size_t(sum.stage)][size_t(layer)], true);
    for (int32_t layer = sum.firstLayer; layer <= sum.lastLayer(); ++layer)
      if (input.replicas.layers[size_t(sum.stage)][size_t(layer)].gradients() > 0)
        note(sum.stage, layer, later(now, std::min(update, kLongest)));
  }

  const ExchangeInput &input;
  const bool sharded;
  const int32_t patience;
  std::vector<Waiting> waiting;
  std::vector<Collective> gathers;
  std::vector<int32_t> open; // of each gather: layers that are not summed yet
};

} // namespace

Exchange inOrderOfNeed(const ExchangeInput &input, const Bundling &bundling, bool sharded) {
  Exchange exchange;
  exchange.sharded = sharded;
  for (size_t rank = 0; rank != input.stagesByRank.size(); ++rank)
    exchange.queues.push_back(Queue(input, bundling, sharded, rank).run());
  return exchange;
}

Exchange layerByLayer(const ExchangeInput &input, bool sharded) {
  Bundling bundling;
  for (const std::vector<ExchangedLayer> &layers : input.replicas.layers) {
    std::vector<int32_t> each(layers.size());
    std::iota(each.begin(), each.end(), 0);
    bundling.stages.push_back({each, each, std::vector<bool>(each.size())});
  }
  return inOrderOfNeed(input, bundling, sharded);
}

} // namespace pipec::schedule
