// `recompute: auto`: the stages that may run their forward again, and what a choice of them would come to.
#include "compiler/driver/FromSpecImport.h"
#include "compiler/schedule/search/Search.h"
#include "runtime/plan/Limits.h"

using namespace mlir;

namespace pipec {

schedule::MayAgain Import::mayRunAgain(const schedule::Problem &filled) const {
  schedule::MayAgain may;
  for (int32_t s = 0; spec.recomputed.chooses && s != filled.stagesOfCopy(); ++s) {
    const schedule::Stage &stage = filled.stages[size_t(s)];
    const schedule::Again again = againOf(size_t(s));
    // What the spec would refuse is not chosen either.
    if (again.input <= stage.activation && again.input - stage.activation < stage.context)
      may[s] = again;
  }
  return may;
}

std::vector<std::vector<schedule::Problem>> Import::insteadOf(const std::vector<schedule::Problem> &problems) const {
  std::vector<std::vector<std::vector<schedule::Problem>>> lists;
  size_t most = 0;
  for (const schedule::Problem &each : problems) {
    lists.push_back(schedule::casesOf(schedule::withoutRecompute(each), mayRunAgain(each)));
    most = std::max(most, lists.back().size());
  }
  // Any list of each problem: together they have all orders of all problems.
  std::vector<std::vector<schedule::Problem>> all(most);
  for (size_t i = 0; i != most; ++i)
    for (const auto &own : lists) {
      const std::vector<schedule::Problem> &list = own[std::min(i, own.size() - 1)];
      all[i].insert(all[i].end(), list.begin(), list.end());
    }
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
  return space;
}

std::optional<RecomputeSpace> recomputeSpaceOf(const spec::Spec &spec, MLIRContext &context) {
  context.loadDialect<pipe::PipeDialect>();
  return Import(spec, context, {1}).recomputeSpace();
}

std::optional<Trial> tryRecompute(const spec::Spec &spec, const std::vector<std::string> &schedules,
                                  MLIRContext &context) {
  constexpr int64_t kJudged = 24;
  const std::optional<RecomputeSpace> space = recomputeSpaceOf(spec, context);
  if (!space)
    return std::nullopt;
  Trial all;
  all.fits = false;
  bool any = false;
  spec::Spec trial = spec;
  schedule::RecomputeSearch search(
      space->may, space->first,
      [&](const schedule::Stages &chosen) -> std::optional<schedule::TrialCost> {
        trial.recomputed.choose({chosen.begin(), chosen.end()});
        const std::optional<Trial> found = tryChoice(trial, schedules, context);
        if (!found)
          return std::nullopt;
        all.fits |= found->fits;
        if (found->fits)
          all.lower = any ? std::min(all.lower, found->lower) : found->lower;
        any |= found->fits;
        return found->cost;
      },
      kJudged);
  search.run();
  if (search.judged().empty())
    return std::nullopt;
  all.cost = search.judged().begin()->first;
  if (!search.looksAtAll()) { // one that was not looked at may fit, and take less
    all.fits = true;
    spec::Spec none = spec;
    none.recomputed.choose({});
    all.lower = Import(none, context, {1}).lowerOfChoices().value_or(0);
  }
  return all;
}

std::optional<schedule::Time> Import::lowerOfChoices() {
  if (failed(choose()) || failed(settle()) || failed(fillAndCheck()))
    return std::nullopt;
  const schedule::Objective by = objective.value_or(schedule::Objective::Span);
  schedule::Time best = 0;
  for (const std::vector<schedule::Problem> &list :
       insteadOf(objective ? placements() : std::vector<schedule::Problem>{problem})) {
    std::optional<schedule::Time> least;
    for (const schedule::Problem &each : list)
      least = std::min(least.value_or(limits::kTime), schedule::boundOf(each, by));
    best = std::max(best, least.value_or(0));
  }
  return best;
}

} // namespace pipec
