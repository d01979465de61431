// `recompute: auto`: the stages that may run their forward again, and what a choice of them would come to.
#include "compiler/driver/FromSpecImport.h"
#include "compiler/schedule/search/Search.h"
#include "compiler/shards/LeastProblems.h"

using namespace mlir;

namespace pipec {

schedule::MayAgain Import::mayRunAgain(const schedule::Problem &filled) const {
  schedule::MayAgain may;
  for (int32_t s = 0; spec.recomputed.chooses && s != filled.stagesOfCopy(); ++s) {
    const schedule::Stage &stage = filled.stages[size_t(s)];
    const schedule::Again again = againOf(size_t(s));
    // What the spec would refuse is not chosen either, nor what keeps no less.
    if (again.input - stage.activation < stage.context)
      may[s] = again;
  }
  return may;
}

schedule::LeastWays Import::choices() {
  if (failed(choose()) || failed(settle()) || failed(fillAndCheck()))
    return {};
  const std::vector<schedule::Problem> problems = objective ? placements() : std::vector{problem};
  std::vector<std::vector<std::vector<schedule::Problem>>> lists; // by placement
  size_t most = 0;
  for (const schedule::Problem &each : problems) {
    lists.push_back(schedule::casesOf(schedule::withoutRecompute(each), mayRunAgain(each)));
    most = std::max(most, lists.back().size());
  }
  // Any list of each placement: together they have all orders on all of them.
  schedule::LeastWays all(most);
  for (size_t i = 0; i != most; ++i)
    for (const auto &own : lists)
      for (const schedule::Problem &each : own[std::min(i, own.size() - 1)])
        all[i].push_back(schedule::LeastProblem::proven(each)); // by what casesOf says
  return all;
}

std::optional<RecomputeSpace> Import::recomputeSpace() {
  if (failed(choose()) || failed(settle()) || failed(fillAndCheck()))
    return std::nullopt;
  RecomputeSpace space;
  space.may = mayRunAgain(problem);
  space.first = schedule::usualChoices(problem, space.may);
  space.forwards = int64_t(problem.stages.size()) * problem.microbatches;
  if (objective)
    space.schedules = standIns();
  std::vector<schedule::Problem> freest = objective ? placements() : std::vector{problem};
  for (schedule::Problem &each : freest)
    each = schedule::freest(schedule::withoutRecompute(each), space.may);
  space.lower = schedule::leastTimes(leastWays(spec, freest)).by(objective.value_or(schedule::Objective::Span));
  return space;
}

std::optional<RecomputeSpace> recomputeSpaceOf(const spec::Spec &spec, MLIRContext &context) {
  context.loadDialect<pipe::PipeDialect>();
  const std::optional<spec::Spec> named = withEntryIfChosen(spec, context);
  return named ? Import(*named, context, {1}).recomputeSpace() : std::nullopt;
}

schedule::LeastWays choicesOf(const spec::Spec &spec, MLIRContext &context) {
  const std::optional<spec::Spec> named = withEntryIfChosen(spec, context);
  return named ? Import(*named, context, {1}).choices() : schedule::LeastWays();
}

std::optional<Trial> tryRecompute(const spec::Spec &spec, const std::vector<std::string> &schedules,
                                  MLIRContext &context) {
  constexpr int64_t kJudged = 24;
  const std::optional<RecomputeSpace> space = recomputeSpaceOf(spec, context);
  if (!space)
    return std::nullopt;
  Trial all;
  all.fits = false;
  all.lower = space->lower;
  spec::Spec trial = spec;
  schedule::RecomputeSearch search(
      space->may, space->first,
      [&](const schedule::Stages &chosen) -> std::optional<schedule::TrialCost> {
        trial.recomputed.choose({chosen.begin(), chosen.end()});
        const std::optional<Trial> found = tryChoice(trial, schedules, context, space->lower);
        if (!found)
          return std::nullopt;
        all.fits |= found->fits;
        return found->cost;
      },
      kJudged);
  search.run();
  if (search.judged().empty())
    return std::nullopt;
  all.cost = search.judged().begin()->first;
  all.fits |= !search.looksAtAll(); // one that was not looked at may
  return all;
}

} // namespace pipec
