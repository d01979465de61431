// `recompute: auto`: the stages that may run their forward again, and what a choice of them would come to.
#include "compiler/driver/FromSpecImport.h"
#include "compiler/schedule/search/Search.h"

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

std::vector<std::vector<schedule::Problem>> Import::choices() {
  if (failed(choose()) || failed(settle()) || failed(fillAndCheck()))
    return {};
  std::vector<std::vector<std::vector<schedule::Problem>>> lists; // by placement
  size_t most = 0;
  for (const schedule::Problem &each : objective ? placements() : std::vector{problem}) {
    lists.push_back(schedule::casesOf(schedule::withoutRecompute(each), mayRunAgain(each)));
    most = std::max(most, lists.back().size());
  }
  // Any list of each placement: together they have all orders on all of them.
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
  std::optional<schedule::Time> lower;
  for (const schedule::Problem &each : objective ? placements() : std::vector{problem}) {
    const schedule::Problem free = schedule::freest(schedule::withoutRecompute(each), space.may);
    const schedule::Time its = lowerOf(free, objective.value_or(schedule::Objective::Span));
    lower = std::min(lower.value_or(its), its);
  }
  space.lower = lower.value_or(0);
  return space;
}

std::optional<RecomputeSpace> recomputeSpaceOf(const spec::Spec &spec, MLIRContext &context) {
  context.loadDialect<pipe::PipeDialect>();
  const std::optional<spec::Spec> named = withEntryIfChosen(spec, context);
  return named ? Import(*named, context, {1}).recomputeSpace() : std::nullopt;
}

std::vector<std::vector<schedule::Problem>> choicesOf(const spec::Spec &spec, MLIRContext &context) {
  const std::optional<spec::Spec> named = withEntryIfChosen(spec, context);
  return named ? Import(*named, context, {1}).choices() : std::vector<std::vector<schedule::Problem>>();
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
