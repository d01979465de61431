// Random groups for the tests of choices, and all counts of so many units.
#pragma once

#include "compiler/portions/Fixed.h"
#include "compiler/portions/Model.h"
#include "compiler/portions/Ranges.h"
#include "test/Draws.h"

#include <functional>

namespace pipec::portions {

class RandomGroups : public test::Draws {
public:
  using Draws::Draws;

  Work work(bool isOwn, bool sizes) {
    Work work;
    const int64_t most = isOwn ? 300 : 4000;
    work.set(Figure::Forward, upTo(0, most));
    work.set(Figure::BackwardInput, upTo(0, most));
    work.set(Figure::BackwardWeight, upTo(0, most));
    if (coin(20))
      work.set(Figure::Backward, upTo(0, 2 * most));
    if (coin(20))
      work.set(Figure::Recompute, upTo(0, most));
    work.set(Figure::Optimizer, coin(40) ? upTo(0, most / 2) : 0);
    if (sizes) {
      work.set(Figure::Activation, upTo(0, 500));
      work.set(Figure::WeightContext, upTo(0, 300));
      work.set(Figure::BackwardContext, upTo(0, 100));
      work.set(Figure::RecomputeInput, upTo(0, 100));
    }
    work.set(Figure::Weights, coin(70) ? upTo(0, 800) : 0);
    work.set(Figure::Gradients, upTo(0, 800));
    work.set(Figure::OptimizerState, upTo(0, 1600));
    return work;
  }

  /// Splits of at most `mostUnits[splits - 1][shards - 2]` units.
  Group group(int32_t shards, int splits, int64_t mostUnits) {
    Group group;
    for (int32_t shard = 0; shard != shards; ++shard)
      group.factors.push_back(coin(40) ? kNoSlower : upTo(500'000, 8'000'000));
    group.link = {.latency = upTo(0, 50), .bandwidth = coin(50) ? 0 : upTo(1'000'000'000'000, 20'000'000'000'000)};
    group.sequence = coin(30);
    group.microbatches = upTo(1, 4);
    group.backward = coin(50) ? BackwardMode::Fused : BackwardMode::Split;
    Stage stage;
    stage.recomputed = coin(25);
    stage.inFlight = upTo(1, 4);
    stage.inputsInFlight = stage.recomputed ? upTo(1, 4) : 0;
    const bool own = coin(60), sizes = coin(80);
    if (splits == 2 && coin(40)) { // in two runs
      for (int run = 0; run != 2; ++run)
        stage.runs.push_back({{own ? work(true, sizes) : Work(), {split(mostUnits, sizes)}}, upTo(1, 4)});
    } else {
      Layer layer{own ? work(true, sizes) : Work(), {}};
      for (int each = 0; each != splits; ++each)
        layer.splits.push_back(split(mostUnits, sizes));
      stage.runs.push_back({layer, upTo(1, 5)});
    }
    if (coin(20))
      stage.runs.insert(stage.runs.begin() + upTo(0, 1), LayerRun{{work(true, sizes), {}}, upTo(1, 3)});
    group.stages.push_back(std::move(stage));
    return group;
  }

  /// A stage of its own for each run of layers.
  static Group inStages(Group group) {
    const Stage all = group.stages[0];
    group.stages.clear();
    for (const LayerRun &run : all.runs) {
      group.stages.push_back(all);
      group.stages.back().runs = {run};
    }
    return group;
  }

private:
  Split split(int64_t mostUnits, bool sizes) {
    Split split;
    static_cast<Work &>(split) = work(false, sizes);
    split.units = upTo(1, mostUnits);
    split.sum = upTo(0, 1000);
    return split;
  }
};

using EachCounts = std::function<void(const std::vector<std::vector<int64_t>> &)>;

/// All ways to give each of the splits' units to the shards.
inline void allCounts(const std::vector<int64_t> &units, int32_t shards, const EachCounts &see) {
  std::vector<std::vector<int64_t>> counts(units.size(), std::vector<int64_t>(size_t(shards), 0));
  const std::function<void(size_t, size_t, int64_t)> next = [&](size_t split, size_t shard, int64_t left) {
    if (split == units.size())
      return see(counts);
    if (shard + 1 == size_t(shards)) {
      counts[split][shard] = left;
      return next(split + 1, 0, split + 1 == units.size() ? 0 : units[split + 1]);
    }
    for (int64_t count = 0; count <= left; ++count) {
      counts[split][shard] = count;
      next(split, shard + 1, left - count);
    }
  };
  next(0, 0, units.empty() ? 0 : units[0]);
}

} // namespace pipec::portions
