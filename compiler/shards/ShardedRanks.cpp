#include "compiler/shards/ShardedRanks.h"

#include "compiler/portions/Fixed.h"
#include "compiler/portions/Held.h"
#include "compiler/portions/Timing.h"
#include "compiler/spec/Stages.h"

#include <algorithm>

namespace pipec {

using plan::Figure;
using portions::Pass;
using schedule::Bytes;
using schedule::Time;

namespace {

constexpr std::pair<Pass, plan::Kind> kKinds[] = {{Pass::Forward, plan::Kind::Forward},
                                                  {Pass::BackwardInput, plan::Kind::BackwardInput},
                                                  {Pass::BackwardWeight, plan::Kind::BackwardWeight},
                                                  {Pass::Backward, plan::Kind::Backward},
                                                  {Pass::Recompute, plan::Kind::Recompute},
                                                  {Pass::Optimizer, plan::Kind::Optimizer}};

Bytes boundaryOf(const spec::Spec &spec, Bytes whole) {
  const int64_t shards = spec.tensorParallel.shards.value;
  return spec.tensorParallel.sequence ? (whole + shards - 1) / shards : whole;
}

template <typename T> T most(const std::vector<T> &list) { return *std::max_element(list.begin(), list.end()); }

} // namespace

ShardedRanks::ShardedRanks(const spec::Spec &spec, const schedule::Problem &problem, const std::vector<int64_t> &cut,
                           const std::vector<int64_t> &inFlight)
    : spec(spec), balance(balanceOf(spec.tensorParallel.balance)), all(groupsOf(spec, problem, cut, inFlight)) {
  place(problem, cut);
  for (const portions::Group &group : all)
    given.push_back(chosenOf(group, balance).portions);
}

ShardedRanks::ShardedRanks(const spec::Spec &spec, const schedule::Problem &problem, const std::vector<int64_t> &cut,
                           const std::vector<plan::Portion> &rows)
    : spec(spec), balance(balanceOf(spec.tensorParallel.balance)), all(groupsOf(spec, problem, cut)) {
  place(problem, cut);
  for (const portions::Group &group : all)
    given.push_back(portions::evenPortions(group));
  const auto rangesOf = [](const std::vector<plan::Range> &from) {
    portions::Ranges to;
    for (const plan::Range &range : from)
      to.push_back({range.first, range.count});
    return to;
  };
  auto row = rows.begin(); // in the order of addPortions()
  for (const Place &at : places)
    for (std::vector<portions::SplitPortions> &run : given[at.rank][at.index])
      for (portions::SplitPortions &split : run)
        for (portions::Portion &portion : split) {
          portion = {rangesOf(row->owned), rangesOf(row->worked), row->kept};
          ++row;
        }
}

void ShardedRanks::place(const schedule::Problem &problem, const std::vector<int64_t> &cut) {
  std::vector<size_t> stages(all.size());
  int64_t first = 0;
  for (size_t s = 0; s != cut.size(); first += cut[s++]) {
    const auto rank = size_t(problem.rankOf[s]);
    places.push_back({rank, stages[rank]++, first});
  }
}

portions::Timing ShardedRanks::timingOf(size_t stage, Pass pass) const {
  return portions::timingOf(all[places[stage].rank], stageAt(stage), portionsAt(stage), pass);
}

plan::Figures ShardedRanks::figuresOf(size_t stage) const {
  plan::Figures made;
  for (const auto &[pass, kind] : kKinds)
    made.set(portions::figureOf(pass), timingOf(stage, pass).whole());
  for (const portions::Held &held : portions::heldOf(all[places[stage].rank], stageAt(stage), portionsAt(stage)))
    for (const plan::FigureRow &row : plan::kFigureTable)
      if (row.held == plan::HeldUnits::Kept)
        made.set(row.figure, std::max(made[row.figure], held[row.figure]));
  if (!spec.has(Figure::RecomputeInput))
    made.set(Figure::RecomputeInput, stage == 0 ? 0 : boundaryOf(spec, spec::recomputeInputOf(spec, int64_t(stage))));
  return made;
}

/// Static bytes of a rank's shards.
static std::vector<Bytes> staticOf(const portions::Group &group, const portions::Portions &portions) {
  std::vector<Bytes> held = group.staticBytes;
  for (size_t s = 0; s != group.stages.size(); ++s) {
    const std::vector<portions::Held> own = portions::heldOf(group, group.stages[s], portions[s]);
    for (size_t shard = 0; shard != held.size(); ++shard)
      held[shard] = std::min(held[shard] + own[shard][Figure::Static], limits::kBytes + 1);
  }
  return held;
}

Bytes ShardedRanks::staticBytesOf(size_t rank) const { return most(staticOf(all[rank], given[rank])); }

void ShardedRanks::addPortions(size_t stage, ShardedStage &made) const {
  const portions::Stage &own = stageAt(stage);
  const portions::StagePortions &units = portionsAt(stage);
  int32_t layer = 0;
  size_t entry = 0; // of the spec, whose splits have the names
  for (int64_t left = places[stage].first; left >= spec.layers->entries[entry].count; ++entry)
    left -= spec.layers->entries[entry].count;
  for (size_t run = 0; run != own.runs.size(); ++run, ++entry) {
    for (size_t split = 0; split != own.runs[run].layer.splits.size(); ++split)
      for (size_t shard = 0; shard != units[run][split].size(); ++shard) {
        const portions::Portion &portion = units[run][split][shard];
        plan::Portion row;
        row.stage = int32_t(stage);
        row.shard = int32_t(shard);
        row.firstLayer = layer;
        row.layers = int32_t(own.runs[run].count);
        row.split = spec.layers->entries[entry].splits[split].name;
        row.units = own.runs[run].layer.splits[split].units;
        for (const auto &[from, to] : {std::pair(&portion.owned, &row.owned), std::pair(&portion.worked, &row.worked)})
          for (const portions::Range &range : *from)
            to->push_back({range.first, range.count});
        row.kept = portion.kept;
        made.portions.push_back(std::move(row));
      }
    layer += int32_t(own.runs[run].count);
  }
}

ShardedStage ShardedRanks::shardedStage(size_t stage) const {
  ShardedStage made;
  for (const portions::Held &held : portions::heldOf(all[places[stage].rank], stageAt(stage), portionsAt(stage))) {
    made.activation.push_back(held[Figure::Activation]);
    made.context.push_back(held[Figure::WeightContext]);
    made.backwardContext.push_back(held[Figure::BackwardContext]);
  }
  for (const auto &[pass, kind] : kKinds) {
    const portions::Timing timing = timingOf(stage, pass);
    ShardedPass own{kind, timing.cost, timing.before, timing.own, timing.after, timing.meets};
    for (size_t shard = 0; shard != own.between.size(); ++shard)
      own.between[shard] -= own.before[shard] + own.after[shard];
    made.passes.push_back(std::move(own));
  }
  addPortions(stage, made);
  return made;
}

Shards ShardedRanks::shards() const {
  Shards made;
  made.count = spec.tensorParallel.shards.value;
  for (size_t rank = 0; rank != all.size(); ++rank) {
    const std::vector<Bytes> held = staticOf(all[rank], given[rank]);
    made.factors.insert(made.factors.end(), all[rank].factors.begin(), all[rank].factors.end());
    made.staticBytes.insert(made.staticBytes.end(), held.begin(), held.end());
    made.workspace.insert(made.workspace.end(), held.size(), all[rank].workspace);
  }
  for (size_t stage = 0; stage != places.size(); ++stage)
    made.stages.push_back(shardedStage(stage));
  made.balance = jsonOf(spec.tensorParallel.balance);
  return made;
}

Time ShardedRanks::leastOf(size_t stage, Pass pass, const Least &by, bool given) const {
  return pipec::leastOf(all[places[stage].rank], stageAt(stage), portionsAt(stage), balance, pass, by, given);
}

plan::Figures ShardedRanks::leastOf(size_t stage, const Least &by, bool given) const {
  plan::Figures made = figuresOf(stage);
  for (const auto &[pass, kind] : kKinds)
    made.set(portions::figureOf(pass), leastOf(stage, pass, by, given));
  return made;
}

void ShardedRanks::useFullestShards(schedule::Problem &problem) const {
  for (size_t rank = 0; rank != all.size(); ++rank) {
    const portions::Group &group = all[rank];
    const std::vector<Bytes> always = staticOf(group, given[rank]);
    std::vector<__int128> needs(always.begin(), always.end());
    std::vector<std::vector<portions::Held>> held; // by stage of the rank
    for (size_t s = 0; s != group.stages.size(); ++s) {
      held.push_back(portions::heldOf(group, group.stages[s], given[rank][s]));
      for (size_t shard = 0; shard != needs.size(); ++shard)
        needs[shard] += __int128(held.back()[shard][Figure::Activation]) + held.back()[shard][Figure::WeightContext];
    }
    const auto fullest = size_t(std::max_element(needs.begin(), needs.end()) - needs.begin());
    problem.staticBytes[rank] = always[fullest];
    for (size_t stage = 0; stage != places.size(); ++stage)
      if (places[stage].rank == rank) {
        const portions::Held &own = held[places[stage].index][fullest];
        schedule::Stage &to = problem.stages[stage];
        to.activation = own[Figure::Activation];
        to.context = own[Figure::WeightContext];
        to.backwardContext = own[Figure::BackwardContext];
        if (to.input && spec.has(Figure::RecomputeInput))
          to.input = own[Figure::RecomputeInput];
      }
  }
}

void useTimes(const spec::Spec &spec, const plan::Figures &figures, size_t s, schedule::Problem &problem) {
  schedule::Stage &stage = problem.stages[s];
  const bool whole = problem.backward == schedule::BackwardMode::Fused || problem.mixed;
  stage.forward = figures[Figure::Forward];
  stage.backwardInput = spec.has(Figure::BackwardInput) ? figures[Figure::BackwardInput] : 0;
  stage.backwardWeight = spec.has(Figure::BackwardInput) ? figures[Figure::BackwardWeight] : 0;
  stage.backward = whole ? figures[Figure::Backward] : stage.backwardInput + stage.backwardWeight;
  stage.input.reset();
  stage.recompute = 0;
  if (spec.recomputed.has(int64_t(s)))
    schedule::recompute(stage, figures[Figure::RecomputeInput], figures[Figure::Recompute]);
  stage.optimizer = figures[Figure::Optimizer];
}

void useFigures(const spec::Spec &spec, const ShardedRanks &ranks, schedule::Problem &problem) {
  for (size_t s = 0; s != problem.stages.size(); ++s) {
    const plan::Figures figures = ranks.figuresOf(s);
    useTimes(spec, figures, s, problem);
    schedule::Stage &stage = problem.stages[s];
    const Bytes back = boundaryOf(spec, stage.gradientBack());
    stage.boundary = boundaryOf(spec, stage.boundary);
    stage.setGradientBack(back);
    stage.activation = figures[Figure::Activation];
    stage.context = figures[Figure::WeightContext];
    stage.backwardContext = figures[Figure::BackwardContext];
  }
  for (size_t rank = 0; rank != problem.staticBytes.size(); ++rank)
    problem.staticBytes[rank] = ranks.staticBytesOf(rank);
}

} // namespace pipec
