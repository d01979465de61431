// The layers of a pass in order, with the sums between splits. Of a run of equal layers at most two are visited. Each
// further layer adds as much as the second, since it follows an equal layer too.
#include "compiler/portions/Timing.h"

#include "compiler/portions/Held.h"
#include "compiler/portions/Ranges.h"
#include "compiler/schedule/exchange/Replicas.h"

#include <algorithm>

namespace pipec::portions {

Time termOf(Factor factor, Time time, int64_t part, int64_t units) {
  const __int128 over = __int128(kNoSlower) * units;
  // Half up as (n + d / 2) / d: d is even.
  return Time(std::min<__int128>((__int128(factor) * time * part + over / 2) / over, kMostTime));
}

Time Timing::whole() const {
  return plus(plus(*std::max_element(before.begin(), before.end()), cost),
              *std::max_element(after.begin(), after.end()));
}

namespace {

/// Adds up the own times of the shards since their last sum, and the cost between the first and the last sum.
class Meter {
public:
  explicit Meter(size_t shards) : open(shards, 0), own(shards, 0) {}

  void add(size_t shard, Time time) { open[shard] = plus(open[shard], time); }
  void sum(Time takes) {
    if (meets)
      cost = plus(cost, *std::max_element(open.begin(), open.end()));
    else
      before = open;
    for (size_t shard = 0; shard != own.size(); ++shard)
      own[shard] = plus(own[shard], open[shard]);
    cost = plus(cost, takes);
    meets = true;
    std::fill(open.begin(), open.end(), 0);
  }
  /// Runs `walk`, which has a sum, as if `count` times.
  template <typename Walk> void repeat(int64_t count, Walk walk) {
    walk();
    if (count == 1)
      return;
    const Time costOfOne = cost;
    const std::vector<Time> ownOfOne = own;
    walk();
    cost = plus(cost, times(count - 2, cost - costOfOne));
    for (size_t shard = 0; shard != own.size(); ++shard)
      own[shard] = plus(own[shard], times(count - 2, own[shard] - ownOfOne[shard]));
  }
  Timing done() const {
    Timing all{.before = meets ? before : open, .after = open, .cost = cost, .meets = meets, .own = own};
    if (!meets)
      all.after.assign(open.size(), 0);
    for (size_t shard = 0; shard != own.size(); ++shard)
      all.own[shard] = plus(own[shard], open[shard]);
    return all;
  }

private:
  std::vector<Time> before, open, own; // open: since the last sum; own: before it
  Time cost = 0;
  bool meets = false;
};

/// Visits the layers of a stage in the order of a pass.
class Walk {
public:
  Walk(const Group &group, const Stage &stage, const StagePortions &portions, Pass pass)
      : group(group), stage(stage), portions(portions), pass(pass), meter(group.factors.size()),
        backwards(pass == Pass::BackwardInput || pass == Pass::Backward),
        meets(group.shards() > 1 && pass != Pass::BackwardWeight && pass != Pass::Optimizer) {}

  Timing run() {
    for (size_t at = 0; at != stage.runs.size(); ++at) {
      const size_t run = backwards ? stage.runs.size() - 1 - at : at;
      const LayerRun &layers = stage.runs[run];
      if (meets && !layers.layer.splits.empty())
        meter.repeat(layers.count, [&] { layer(run, 1); });
      else
        layer(run, layers.count);
    }
    return meter.done();
  }

private:
  /// One layer or, without sums, `count` layers.
  void layer(size_t run, int64_t count) {
    const Layer &layer = stage.runs[run].layer;
    if (!backwards)
      addOwn(layer, count);
    for (size_t at = 0; at != layer.splits.size(); ++at) {
      const size_t split = backwards ? layer.splits.size() - 1 - at : at;
      addSplit(layer.splits[split], portions[run][split], count);
    }
    if (backwards)
      addOwn(layer, count);
  }
  void addOwn(const Layer &layer, int64_t count) {
    for (size_t shard = 0; shard != group.factors.size(); ++shard)
      meter.add(shard, times(count, ownOf(group.factors[shard], layer.own.of(pass))));
  }
  void addSplit(const Split &split, const SplitPortions &given, int64_t count) {
    const Sums sums = sumsOf(group, split);
    if (meets && sums.isBefore)
      meter.sum(sums.before);
    for (size_t shard = 0; shard != group.factors.size(); ++shard) {
      const int64_t part = pass == Pass::Optimizer ? unitsOf(given[shard].owned) : given[shard].kept;
      meter.add(shard, times(count, termOf(group.factors[shard], split.of(pass), part, split.units)));
    }
    if (meets)
      meter.sum(sums.behind);
  }

  const Group &group;
  const Stage &stage;
  const StagePortions &portions;
  Pass pass;
  Meter meter;
  bool backwards, meets;
};

/// An optimizer with two exchanges, and all own work of the shards between them.
Timing withExchanges(const Group &group, const Moved &moved, Timing timing) {
  timing.cost = plus(exchangeTime(group.link, moved.gradients), exchangeTime(group.link, moved.weights));
  timing.cost = plus(timing.cost, *std::max_element(timing.before.begin(), timing.before.end()));
  timing.before.assign(timing.before.size(), 0);
  timing.meets = true;
  return timing;
}

} // namespace

Sums sumsOf(const Group &group, const Split &split) {
  const schedule::CollectiveTimes ring = schedule::ringOf(group.shards(), group.link);
  if (group.sequence)
    return {true, ring.allGather.of(split.sum), ring.reduceScatter.of(split.sum)};
  return {false, 0, ring.allReduce.of(split.sum)};
}

Time exchangeTime(const Link &link, Bytes mostBytes) {
  return plus(link.latency, std::min(schedule::wireTime(mostBytes, link.bandwidth), kMostTime));
}

Moved movedOf(const Group &group, const Stage &stage, const StagePortions &portions) {
  const size_t shards = group.factors.size();
  // bytes for units that a shard works for others, and that others work for it; sums of sizes may exceed 64 bits
  std::vector<__int128> gradientsOut(shards, 0), gradientsIn(shards, 0), weightsIn(shards, 0), weightsOut(shards, 0);
  Moved moved;
  for (size_t run = 0; run != stage.runs.size(); ++run)
    for (size_t at = 0; at != stage.runs[run].layer.splits.size(); ++at) {
      const Split &split = stage.runs[run].layer.splits[at];
      const __int128 count = stage.runs[run].count;
      for (size_t shard = 0; shard != shards; ++shard) {
        const Portion &own = portions[run][at][shard];
        const int64_t forOthers = unitsOfFirst(own.worked, own.owned), byOthers = unitsOfFirst(own.owned, own.worked);
        gradientsOut[shard] += count * shareOf(split.sentGradients(), forOthers, split.units);
        gradientsIn[shard] += count * shareOf(split.sentGradients(), byOthers, split.units);
        weightsIn[shard] += count * shareOf(split.sentWeights(), forOthers, split.units);
        weightsOut[shard] += count * shareOf(split.sentWeights(), byOthers, split.units);
        moved.any = moved.any || forOthers > 0 || byOthers > 0;
      }
    }
  __int128 gradients = 0, weights = 0, all = 0;
  for (size_t shard = 0; shard != shards; ++shard) {
    gradients = std::max({gradients, gradientsOut[shard], gradientsIn[shard]});
    weights = std::max({weights, weightsOut[shard], weightsIn[shard]});
    all += gradientsOut[shard] + weightsOut[shard];
  }
  const auto bytes = [](__int128 wide) { return Bytes(std::min<__int128>(wide, INT64_MAX)); };
  moved.gradients = bytes(gradients);
  moved.weights = bytes(weights);
  moved.all = bytes(all);
  return moved;
}

Timing timingOf(const Group &group, const Stage &stage, const StagePortions &portions, Pass pass) {
  Timing timing = Walk(group, stage, portions, pass).run();
  if (pass != Pass::Optimizer)
    return timing;
  const Moved moved = movedOf(group, stage, portions);
  return moved.any ? withExchanges(group, moved, std::move(timing)) : timing;
}

Time stepOf(const Group &group, const Stage &stage, const StagePortions &portions) {
  Time step = timingOf(group, stage, portions, Pass::Optimizer).whole();
  for (const Pass pass : group.passesOf(stage))
    step = plus(step, times(group.microbatches, timingOf(group, stage, portions, pass).whole()));
  return step;
}

Time stepOf(const Group &group, const Portions &portions) {
  Time step = 0;
  for (size_t stage = 0; stage != group.stages.size(); ++stage)
    step = plus(step, stepOf(group, group.stages[stage], portions[stage]));
  return step;
}

std::vector<Time> ownOfStep(const Group &group, const Portions &portions) {
  std::vector<Time> own(group.factors.size(), 0);
  const auto add = [&](const std::vector<Time> &each, int64_t count) {
    for (size_t shard = 0; shard != own.size(); ++shard)
      own[shard] = plus(own[shard], times(count, each[shard]));
  };
  for (size_t stage = 0; stage != group.stages.size(); ++stage) {
    for (const Pass pass : group.passesOf(group.stages[stage]))
      add(timingOf(group, group.stages[stage], portions[stage], pass).own, group.microbatches);
    add(timingOf(group, group.stages[stage], portions[stage], Pass::Optimizer).own, 1);
  }
  return own;
}

std::vector<Pass> Group::passesOf(const Stage &stage) const {
  std::vector<Pass> passes = {Pass::Forward};
  if (stage.recomputed)
    passes.push_back(Pass::Recompute);
  if (backward == BackwardMode::Fused)
    passes.push_back(Pass::Backward);
  else
    passes.insert(passes.end(), {Pass::BackwardInput, Pass::BackwardWeight});
  return passes;
}

} // namespace pipec::portions
