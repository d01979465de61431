// `cut: auto`: what a cut of the layers would come to with the spec's schedule, before anything is compiled.
#include "compiler/driver/FromSpecImport.h"
#include "compiler/schedule/evaluate/Buffers.h"
#include "compiler/schedule/evaluate/Evaluate.h"
#include "compiler/schedule/search/Search.h"
#include "compiler/shards/LeastProblems.h"
#include "compiler/shards/ShardedRanks.h"
#include "compiler/spec/Stages.h"
#include "runtime/plan/Limits.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace pipec {

using plan::Figure;

namespace {

/// What each layer takes of its rank in a step, at least.
schedule::CutWork workOf(const spec::Spec &spec, const schedule::Problem &problem) {
  schedule::CutWork work;
  work.rankOf = problem.rankOf;
  work.copies = problem.copies;
  const int64_t microbatches = spec.microbatches.value / problem.copies;
  for (const spec::Layer &each : spec.layers->entries) {
    const plan::Figures &own = each.figures;
    int64_t backward = problem.backward == schedule::BackwardMode::Split || !spec.has(Figure::Backward)
                           ? own[Figure::BackwardInput] + own[Figure::BackwardWeight]
                           : own[Figure::Backward];
    if (problem.mixed)
      backward = std::min(backward, own[Figure::Backward]);
    // Of passes that run together the longer one counts.
    const int64_t passes = spec.has(Figure::Overlapped) ? backward : own[Figure::Forward] + backward;
    work.layers.insert(work.layers.end(), size_t(each.count), microbatches * passes + own[Figure::Optimizer]);
  }
  // A slice's part of a time is rounded, by half a picosecond at most.
  if (problem.slices > 1)
    work.perStage = -2 * problem.slices * microbatches;
  if (const spec::PerStage &update = spec.layers->beside[Figure::Optimizer]; !update.list)
    work.perStage += update[0];
  if (hasShards(spec))
    useShards(spec, problem, work);
  for (int32_t rank = 0; spec.measured && rank != problem.ranks; ++rank)
    work.percent.push_back(spec.measured->percentOf(rank));
  return work;
}

/// What R take of the rank where they take most.
schedule::Time busiestAgain(const schedule::Problem &problem) {
  std::vector<schedule::Time> again(size_t(problem.ranks));
  for (size_t s = 0; s != problem.stages.size(); ++s)
    again[size_t(problem.rankOf[s])] += problem.stages[s].recompute * problem.microbatches;
  return *std::max_element(again.begin(), again.end());
}

} // namespace

LogicalResult Import::choose() {
  return spec.schedule.name == "block"   ? customBlock()
         : spec.schedule.name == "order" ? orderFile()
         : spec.schedule.name == "auto"  ? autoSchedule()
                                         : catalogueEntry();
}

std::optional<CutSpace> Import::cutSpace() {
  constexpr int64_t kMostLayers = 1 << 16;
  if (const int64_t count = spec.layers->count(); count > kMostLayers)
    return error(spec.layers->cutMark) << "pipeline.cut: auto is for at most " << kMostLayers << " layers, found "
                                       << count,
           std::nullopt;
  if (failed(choose()) || failed(settle()) || failed(fillAndCheck()))
    return std::nullopt;
  CutSpace space{workOf(spec, problem), spec::evenCut(spec.layers->count(), spec.stages), {}};
  if (!objective)
    return space;
  spec.layers->cut = {schedule::sharedCut(space.work), spec.layers->cutMark};
  space.schedules = standIns();
  return space;
}

std::vector<std::string> Import::standIns() {
  constexpr size_t kSchedules = 2;
  std::vector<std::tuple<__int128, schedule::Time, std::string>> times;
  for (const schedule::Entry &each : schedule::catalogue())
    if (const std::optional<Taken> found = each.copies() == 1 ? takenBy(each) : std::nullopt;
        found && found->stages == size_t(spec.stages))
      times.emplace_back(std::max<__int128>(found->excess, 0), found->cost.first, each.name);
  std::sort(times.begin(), times.end());
  std::vector<std::string> names;
  for (size_t i = 0; i != std::min(kSchedules, times.size()); ++i)
    names.push_back(std::get<2>(times[i]));
  return names;
}

std::optional<Trial> Import::tryChoice(const std::vector<std::string> &schedules,
                                       std::optional<plan::LeastTime> lower) {
  if (failed(choose()) || failed(settle()) || failed(fillAndCheck()) || failed(checkPairs()) ||
      (spec.schedule.name == "block" && failed(checkBlock())))
    return std::nullopt;
  const schedule::Objective by = objective.value_or(schedule::Objective::Span);
  const std::vector<schedule::Problem> problems = objective ? placements() : std::vector{problem};
  const auto over = [](const schedule::Problem &each) {
    return each.memoryLimit == 0 ? 0 : std::max<__int128>(__int128(schedule::leastLimit(each)) - each.memoryLimit, 0);
  };
  const bool isShared = lower.has_value();
  Trial trial;
  std::optional<__int128> excess;
  std::vector<schedule::Problem> fitting;
  for (const schedule::Problem &each : problems) {
    const __int128 its = over(each);
    excess = std::min(excess.value_or(its), its);
    if (its == 0 && !isShared)
      fitting.push_back(each);
  }
  trial.cost.excess = *excess;
  trial.fits = *excess == 0;
  if (trial.fits)
    trial.lower = isShared ? *lower : schedule::leastTimes(leastWays(spec, fitting)).by(by);
  // What a search comes to. A bound under a tight limit is near it; one that is shared knows nothing of R.
  const schedule::Time least = trial.lower.picoseconds();
  const schedule::Time guess = isShared                  ? least + least / 4 + busiestAgain(problem)
                               : spec.recomputed.chooses ? least + least / 10
                                                         : least + least / 4;
  if (objective) {
    trial.cost.time = guess;
    for (const std::string &each : schedules)
      if (const std::optional<Taken> found = takenBy(*schedule::find(each)); found && found->excess <= 0)
        trial.cost.time = std::min(trial.cost.time, found->cost.first);
    return trial;
  }
  const schedule::Words words = wordsHere();
  const schedule::Evaluation found = schedule::evaluate(problem, words);
  if (!found.complete)
    return std::nullopt;
  trial.cost.time = found.span;
  trial.cost.other = found.makespan;
  if (problem.memoryLimit != 0)
    trial.cost.excess = std::max<__int128>(schedule::excessOf(problem, words), 0);
  // Queues and buffers only add time. Three things may save some: W that run when their rank waits, an R that moves to
  // a wait, and shards that each begin and end a pass at a time of its own.
  if (spec.weights.value == spec::Weights::Ordered && !hasShards(spec))
    trial.least =
        problem.recomputes() ? schedule::evaluate(schedule::withoutRecompute(problem), words).span : found.span;
  return trial;
}

std::optional<CutSpace> cutSpaceOf(const spec::Spec &spec, MLIRContext &context) {
  context.loadDialect<pipe::PipeDialect>();
  return Import(spec, context, {1}).cutSpace();
}

schedule::Bytes leastLimitOfCuts(spec::Spec spec, MLIRContext &context) {
  constexpr int64_t kJudged = 256;
  const std::optional<CutSpace> space = cutSpaceOf(spec, context);
  if (!space)
    return 0;
  schedule::CutSearch cuts(
      space->work, {space->even},
      [&](const schedule::Cut &cut) {
        spec.layers->cut = {cut, spec.layers->cutMark};
        return std::optional(schedule::TrialCost{leastLimitOf(spec, context), 0, 0});
      },
      kJudged);
  cuts.run();
  return schedule::Bytes(cuts.judged().begin()->first.excess);
}

std::optional<Trial> tryChoice(const spec::Spec &spec, const std::vector<std::string> &schedules, MLIRContext &context,
                               std::optional<plan::LeastTime> lower) {
  ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
  if (spec.recomputed.isOpen())
    return tryRecompute(spec, schedules, context);
  const std::optional<spec::Spec> named = withEntryIfChosen(spec, context);
  return named ? Import(*named, context, {1}).tryChoice(schedules, lower) : std::nullopt;
}

} // namespace pipec
