#include "compiler/portions/GroupProgram.h"

#include "compiler/portions/Held.h"
#include "compiler/portions/Ranges.h"
#include "compiler/portions/Timing.h"

#include <algorithm>

namespace pipec::portions {

std::vector<SplitAt> splitsOf(const Group &group) {
  std::vector<SplitAt> all;
  for (size_t stage = 0; stage != group.stages.size(); ++stage)
    for (size_t run = 0; run != group.stages[stage].runs.size(); ++run)
      for (size_t split = 0; split != group.stages[stage].runs[run].layer.splits.size(); ++split)
        all.push_back({stage, run, split});
  return all;
}

const Split &splitAt(const Group &group, const SplitAt &at) {
  return group.stages[at.stage].runs[at.run].layer.splits[at.split];
}

namespace {

/// Makes the maxima of passes. A run of equal layers needs two sets of segments: those of its first layer, and those of
/// its other layers, which follow an equal layer.
class Segments {
public:
  Segments(const Group &group, Program &program) : group(group), program(program) {}

  void addStage(const Stage &stage, int32_t firstSplit) {
    for (const Pass pass : group.passesOf(stage))
      if (group.shards() == 1 || pass == Pass::BackwardWeight)
        addWithoutSums(stage, firstSplit, pass, group.microbatches);
      else
        addWithSums(stage, firstSplit, pass);
  }

  /// Adds a whole pass as one maximum.
  void addWithoutSums(const Stage &stage, int32_t firstSplit, Pass pass, int64_t weight) {
    Maximum whole{.kind = Maximum::Kind::Work, .weight = weight, .fixed = {}, .terms = {}};
    whole.fixed.assign(program.shards(), 0);
    for (const LayerRun &run : stage.runs) {
      addOwn(whole.fixed, run, run.count, pass);
      for (const Split &split : run.layer.splits) {
        const Part::By by = pass == Pass::Optimizer ? Part::By::Owned : Part::By::Kept;
        if (split.of(pass) > 0)
          whole.terms.push_back({firstSplit, split.units, {{run.count, split.of(pass), by}}});
        ++firstSplit;
      }
    }
    add(std::move(whole));
  }

private:
  void addOwn(std::vector<Wide> &to, const LayerRun &run, int64_t count, Pass pass) const {
    for (size_t shard = 0; shard != to.size(); ++shard)
      to[shard] += Wide(count) * ownOf(group.factors[shard], run.layer.own.of(pass));
  }

  void addWithSums(const Stage &stage, int32_t firstSplit, Pass pass) {
    const bool backwards = pass == Pass::BackwardInput || pass == Pass::Backward;
    std::vector<int32_t> first; // split of each run
    for (const LayerRun &run : stage.runs) {
      first.push_back(firstSplit);
      firstSplit += int32_t(run.layer.splits.size());
    }
    open.assign(program.shards(), 0);
    for (size_t at = 0; at != stage.runs.size(); ++at) {
      const size_t run = backwards ? stage.runs.size() - 1 - at : at;
      const LayerRun &layers = stage.runs[run];
      if (layers.layer.splits.empty()) {
        addOwn(open, layers, layers.count, pass);
        continue;
      }
      addLayers(layers, first[run], pass, backwards, 1);
      if (layers.count > 1)
        addLayers(layers, first[run], pass, backwards, layers.count - 1);
    }
    close(group.microbatches);
  }

  /// Adds `count` equal layers.
  void addLayers(const LayerRun &run, int32_t firstSplit, Pass pass, bool backwards, int64_t count) {
    const Wide weight = Wide(count) * group.microbatches;
    if (!backwards)
      addOwn(open, run, 1, pass);
    for (size_t at = 0; at != run.layer.splits.size(); ++at) {
      const size_t index = backwards ? run.layer.splits.size() - 1 - at : at;
      const Split &split = run.layer.splits[index];
      const Sums sums = sumsOf(group, split);
      if (sums.isBefore)
        close(weight);
      Maximum segment{.kind = Maximum::Kind::Work, .weight = weight, .fixed = open, .terms = {}};
      if (split.of(pass) > 0)
        segment.terms.push_back({firstSplit + int32_t(index), split.units, {{1, split.of(pass), Part::By::Kept}}});
      add(std::move(segment));
      program.constant += weight * (Wide(sums.before) + sums.behind);
      open.assign(program.shards(), 0);
    }
    if (backwards)
      addOwn(open, run, 1, pass);
  }

  /// Ends a segment that has no split.
  void close(Wide weight) {
    add({.kind = Maximum::Kind::Work, .weight = weight, .fixed = open, .terms = {}});
    open.assign(program.shards(), 0);
  }
  void add(Maximum maximum) {
    if (maximum.terms.empty())
      program.constant += maximum.weight * *std::max_element(maximum.fixed.begin(), maximum.fixed.end());
    else
      program.maxima.push_back(std::move(maximum));
  }

  const Group &group;
  Program &program;
  std::vector<Wide> open; // by shard: own work since the last sum
};

int32_t splitsIn(const Stage &stage) {
  size_t splits = 0;
  for (const LayerRun &run : stage.runs)
    splits += run.layer.splits.size();
  return int32_t(splits);
}

/// Adds the cost of units worked by another shard than their owner: the optimizer times at equal ownership, and two
/// exchanges.
void addExchanges(const Group &group, const Stage &stage, int32_t firstSplit, Program &program) {
  std::vector<Wide> optimizer(program.shards(), 0);
  Maximum gradients{.kind = Maximum::Kind::Exchange, .weight = 1, .fixed = optimizer, .terms = {}};
  Maximum weights = gradients;
  for (const LayerRun &run : stage.runs) {
    for (size_t shard = 0; shard != optimizer.size(); ++shard)
      optimizer[shard] += Wide(run.count) * ownOf(group.factors[shard], run.layer.own[Figure::Optimizer]);
    for (const Split &split : run.layer.splits) {
      for (size_t shard = 0; shard != optimizer.size(); ++shard)
        optimizer[shard] += Wide(run.count) * termOf(group.factors[shard], split[Figure::Optimizer],
                                                     program.owned[size_t(firstSplit)][shard], split.units);
      if (split.sentGradients() > 0)
        gradients.terms.push_back({firstSplit, split.units, {{run.count, split.sentGradients(), Part::By::Kept}}});
      if (split.sentWeights() > 0)
        weights.terms.push_back({firstSplit, split.units, {{run.count, split.sentWeights(), Part::By::Kept}}});
      ++firstSplit;
    }
  }
  program.constant += *std::max_element(optimizer.begin(), optimizer.end());
  for (Maximum *each : {&gradients, &weights})
    if (!each->terms.empty() && group.link.bandwidth > 0)
      program.maxima.push_back(std::move(*each));
}

} // namespace

Program ownedProgram(const Group &group, const std::vector<int64_t> &kept) {
  Program program;
  program.factors = group.factors;
  program.units = kept;
  Segments segments(group, program);
  int32_t first = 0;
  for (const Stage &stage : group.stages) {
    segments.addStage(stage, first);
    segments.addWithoutSums(stage, first, Pass::Optimizer, 1);
    first += splitsIn(stage);
  }
  program.join();
  return program;
}

Program movedProgram(const Group &group) {
  Program program;
  program.factors = group.factors;
  program.bandwidth = group.link.bandwidth;
  for (const SplitAt &at : splitsOf(group)) {
    program.units.push_back(splitAt(group, at).units);
    program.owned.push_back(equalCounts(program.units.back(), group.shards()));
  }
  Segments segments(group, program);
  int32_t first = 0;
  for (const Stage &stage : group.stages) {
    segments.addStage(stage, first);
    addExchanges(group, stage, first, program);
    first += splitsIn(stage);
  }
  program.join();
  return program;
}

Time latenciesOf(const Group &group) { return plus(group.link.latency, group.link.latency); }

namespace {

void addBytes(Term &term, int64_t count, Bytes bytes, Part::By by) {
  if (count > 0 && bytes > 0)
    term.parts.push_back({count, bytes, by});
}

/// Adds the bytes that `count` equal layers of a stage hold.
void addBytes(Term &term, const Stage &stage, int64_t count, const Work &work, bool moved) {
  for (const plan::FigureRow &row : plan::kFigureTable) {
    const Bytes bytes = work[row.figure];
    if (row.held == plan::HeldUnits::Kept)
      addBytes(term, count * stage.inFlightOf(row.figure), bytes, Part::By::Kept);
    else if (row.held == plan::HeldUnits::Either)
      addBytes(term, count, bytes, moved ? Part::By::Either : Part::By::Owned);
    else if (row.held == plan::HeldUnits::Owned && !moved) // units move only between workers; owners stay the same
      addBytes(term, count, bytes, Part::By::Owned);
  }
}

} // namespace

Maximum memoryOf(const Group &group, const Program &program, Wide limit) {
  Maximum memory{.kind = Maximum::Kind::Bytes, .weight = 0, .fixed = {}, .terms = {}, .most = limit};
  const bool moved = !program.owned.empty();
  for (int32_t shard = 0; shard != group.shards(); ++shard)
    memory.fixed.push_back(Wide(group.otherStatic(shard)) + group.workspace);
  int32_t split = 0;
  for (const Stage &stage : group.stages)
    for (const LayerRun &run : stage.runs) {
      Wide own = 0;
      Term all; // the layer's own sizes, as one unit of one
      addBytes(all, stage, run.count, run.layer.own, false);
      for (const Part &part : all.parts)
        own += Wide(part.count) * part.amount;
      for (Wide &fixed : memory.fixed)
        fixed += own;
      for (const Split &each : run.layer.splits) {
        Term term{.split = split, .units = each.units, .parts = {}};
        addBytes(term, stage, run.count, each, moved);
        if (!term.parts.empty())
          memory.terms.push_back(std::move(term));
        for (size_t shard = 0; moved && shard != memory.fixed.size(); ++shard)
          memory.fixed[shard] +=
              Wide(run.count) * shareOf(each[Figure::OptimizerState], program.owned[size_t(split)][shard], each.units);
        ++split;
      }
    }
  return memory;
}

} // namespace pipec::portions
