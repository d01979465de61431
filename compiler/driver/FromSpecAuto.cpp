// `schedule: auto`: the words that a search finds; with slices or two copies, the best schedule of the catalogue.
#include "compiler/driver/FromSpecImport.h"
#include "compiler/schedule/evaluate/Buffers.h"
#include "compiler/schedule/evaluate/Evaluate.h"
#include "compiler/schedule/overlap/Pairing.h"
#include "runtime/plan/Limits.h"
#include "runtime/plan/Text.h"

#include <future>

using namespace mlir;

namespace pipec {

std::optional<Import::Taken> Import::taken(schedule::Objective by) {
  if (failed(catalogueEntry()) || failed(settle()) || failed(fillAndCheck()) || failed(checkLength()))
    return std::nullopt;
  const schedule::Words words = wordsHere();
  const schedule::Evaluation evaluation = schedule::evaluate(problem, words);
  if (!evaluation.complete)
    return std::nullopt;
  const auto timeOf = [&](const schedule::Evaluation &each) {
    return by == schedule::Objective::Span ? each.span : each.makespan;
  };
  Taken result{{timeOf(evaluation), *std::max_element(evaluation.peak.begin(), evaluation.peak.end())},
               problem.recomputes() ? timeOf(schedule::evaluate(schedule::withoutRecompute(problem), words))
                                    : timeOf(evaluation),
               0,
               problem.rankOf.size() / size_t(problem.copies)};
  if (problem.memoryLimit != 0)
    result.excess = schedule::excessOf(problem, words);
  return result;
}

std::optional<Import::Taken> Import::takenBy(const schedule::Entry &entry) {
  if (hasToStop())
    return std::nullopt;
  spec::Spec trial = spec;
  trial.schedule = {std::string(entry.name), spec.schedule.mark, {}};
  ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
  return Import(trial, context, room).taken(*objective);
}

std::vector<std::pair<Import::Taken, std::string>> Import::takenByAll() {
  const bool bothWays = spec.placement && spec.placement->kind == spec::PlacementKind::Bidirectional;
  std::vector<std::pair<Taken, std::string>> all;
  for (const schedule::Entry &each : schedule::catalogue())
    if ((each.copies() == 2) == bothWays && (spec.slices.value == 1 || each.allowsSlices))
      if (const std::optional<Taken> found = takenBy(each))
        all.emplace_back(*found, each.name);
  return all;
}

schedule::Bytes Import::leastLimit() {
  __int128 least = limits::kBytes;
  if (!choosesFromCatalogue(spec)) {
    for (const schedule::Problem &each : space().problems)
      least = std::min<__int128>(
          least, schedule::leastLimit(each, spec.recomputed.isOpen() ? mayRunAgain(each) : schedule::MayAgain()));
  } else if (spec.recomputed.isOpen()) {
    const std::optional<RecomputeSpace> choices = Import(spec, context, room).recomputeSpace();
    for (const schedule::Stages &each : choices ? choices->first : std::vector<schedule::Stages>()) {
      spec::Spec trial = spec;
      trial.recomputed.choose({each.begin(), each.end()});
      least = std::min<__int128>(least, Import(trial, context, room).leastLimit());
    }
  } else if (succeeded(autoParameters())) {
    // Under the lowest limits, as far apart as the spec's.
    const schedule::Bytes smallest =
        spec.memoryLimits.empty() ? spec.memoryLimit.value : *llvm::min_element(spec.memoryLimits);
    spec.memoryLimit.value -= smallest - 1;
    for (int64_t &limit : spec.memoryLimits)
      limit -= smallest - 1;
    for (const auto &[found, name] : takenByAll())
      least = std::min(least, found.excess + spec.memoryLimit.value);
  }
  return schedule::Bytes(std::max<__int128>(least, 1));
}

std::vector<CatalogueTime> Import::catalogueTimes() {
  std::vector<CatalogueTime> times;
  if (failed(autoParameters()))
    return times;
  for (const schedule::Entry &each : schedule::catalogue()) // two copies of a stage are for the spec to ask for
    if (const std::optional<Taken> found = each.copies() == 1 ? takenBy(each) : std::nullopt;
        found && found->excess <= 0 && found->stages == size_t(spec.stages))
      times.push_back({found->least, std::string(each.name)});
  std::sort(times.begin(), times.end());
  return times;
}

std::vector<std::string> Import::fitting(int32_t stages) {
  objective = schedule::Objective::Span;
  std::vector<std::string> names;
  const schedule::Entry *own = schedule::find(spec.schedule.name);
  const bool anyStages = spec.layers && !spec.stagesGiven; // cut into others they are the same model
  for (const schedule::Entry &each : schedule::catalogue()) {
    const bool same = own && own->name == each.name;
    if (same && spec.schedule.parameters.empty())
      continue;
    if (const std::optional<Taken> found = takenBy(each);
        found && found->excess <= 0 && (anyStages || found->stages == size_t(stages)))
      names.push_back(std::string(each.name) + (same ? " without parameters" : ""));
  }
  if (spec.schedule.name == "auto" || !(anyStages || spec.stages == stages) || choosesFromCatalogue(spec))
    return names;
  ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
  const std::vector<schedule::Problem> problems = space().problems;
  if (std::any_of(problems.begin(), problems.end(),
                  [](const schedule::Problem &each) { return each.memoryLimit >= schedule::leastLimit(each); }))
    names.push_back("auto");
  return names;
}

std::optional<spec::Spec> Import::withEntry() {
  if (failed(autoParameters()))
    return std::nullopt;
  std::optional<std::pair<std::pair<schedule::Time, schedule::Bytes>, std::string>> best;
  std::optional<std::pair<__int128, std::string>> nearest;
  for (const auto &[found, name] : takenByAll()) {
    if (found.excess <= 0 && (!best || found.cost < best->first))
      best.emplace(found.cost, name);
    if (!nearest || found.excess < nearest->first)
      nearest.emplace(found.excess, name);
  }
  if (!best && hasToStop()) // one that fits may be among those not looked at
    return stopped(), std::nullopt;
  if (!best && !nearest) {
    error(spec.schedule.mark)
        << "auto has no order for slices or a bidirectional placement but the catalogue's, none of "
           "which goes with the rest of the spec: name one to see why";
    return std::nullopt;
  }
  spec.schedule = {best ? best->second : nearest->second, spec.schedule.mark, {}};
  return spec; // where none fits, check-memory says what is missing
}

SearchSpace Import::space() {
  if (choosesFromCatalogue(spec)) {
    error(spec.slices.value > 1 ? spec.slices.mark : spec.placement->mark)
        << "the search by words has whole microbatches and each stage on one rank, found "
        << (spec.slices.value > 1 ? "slices" : "a bidirectional placement");
    return {};
  }
  if (spec.schedule.name != "auto")
    spec.schedule = {"auto", spec.schedule.mark, {}};
  if (failed(autoSchedule()) || failed(settle()) || failed(fillAndCheck()))
    return {};
  return {placements(), *objective};
}

LogicalResult Import::autoParameters() {
  objective = schedule::Objective::Span;
  for (const auto &[name, parameter] : spec.schedule.parameters) {
    if (name != "objective")
      return error(parameter.mark) << "schedule 'auto' has no parameter '" << name << "', expected objective",
             failure();
    if (parameter.list || (parameter.values.front() != "span" && parameter.values.front() != "makespan"))
      return error(parameter.mark) << "expected span or makespan as 'objective' of schedule 'auto', found "
                                   << (parameter.list ? "a list" : "'" + parameter.values.front() + "'"),
             failure();
    if (parameter.values.front() == "makespan")
      objective = schedule::Objective::Makespan;
  }
  return success();
}

void Import::stopped() {
  error(spec.schedule.mark) << "the search was stopped before it found an order: give it more time, or name a schedule "
                               "of the catalogue";
}

LogicalResult Import::autoSchedule() {
  if (failed(autoParameters()))
    return failure();
  problem.rankOf = placedAsSpecSays(size_t(spec.stages));
  if (failed(agreesWithPlacement("auto has each stage on one rank")))
    return failure();
  const bool fused = spec.backwardMode && spec.backwardMode->value == spec::Backward::Fused;
  return setBackward(fused ? schedule::BackwardMode::Fused : schedule::BackwardMode::Split);
}

std::vector<schedule::Problem> Import::placements() {
  std::vector<schedule::Problem> problems{problem};
  if (!spec.placement && spec.stages > spec.ranks.value) {
    schedule::Problem &back = problems.emplace_back();
    back.backward = problem.backward;
    back.rankOf = schedule::placed(spec.ranks.value, spec.stages, true);
    fillProblem(back);
  }
  return problems;
}

LogicalResult Import::search() {
  std::vector<schedule::Problem> problems = placements();
  std::optional<schedule::Solution> best;
  size_t chosen = 0;
  const bool bySpan = (*objective == schedule::Objective::Span) != room.byOther;
  const schedule::SolveOptions options{.objective = bySpan ? schedule::Objective::Span : schedule::Objective::Makespan,
                                       .effort = room.effort,
                                       .buffers = room.buffers,
                                       .spare = room.spare,
                                       .stop = room.stop};
  std::vector<std::future<std::optional<schedule::Solution>>> solutions; // side by side: each is the same anyhow
  for (schedule::Problem each : problems) {
    each.memoryLimit = room.withoutLimit ? 0 : each.memoryLimit;
    solutions.push_back(std::async(std::launch::async,
                                   [each = std::move(each), options] { return schedule::solvePaired(each, options); }));
  }
  for (size_t i = 0; i != problems.size(); ++i) {
    std::optional<schedule::Solution> found = solutions[i].get();
    if (found && (!best || found->time < best->time)) {
      best = std::move(found);
      chosen = i;
    }
  }
  if (!best && hasToStop())
    return stopped(), failure();
  if (!best) {
    code = Code::Check;
    const schedule::Problem &nearest = *std::min_element(
        problems.begin(), problems.end(), [](const schedule::Problem &one, const schedule::Problem &other) {
          return schedule::leastLimit(one) < schedule::leastLimit(other);
        });
    const int32_t rank = schedule::tightestRank(nearest);
    const schedule::Bytes limit = nearest.limitOf(rank),
                          least = schedule::leastLimit(nearest) - (nearest.memoryLimit - limit);
    return error(spec.memoryLimit.mark) << "no order fits into the limit of " << plan::bytesText(limit)
                                        << (nearest.withheld.empty() ? " a rank; "
                                                                     : " of rank " + std::to_string(rank) + "; ")
                                        << plan::bytesText(least) << " (" << least << "B) is the least that does"
                                        << (nearest.withheld.empty() ? "" : " there")
                                        << ", with one microbatch at a time",
           failure();
  }
  std::swap(problem, problems[chosen]);
  problems.erase(problems.begin() + ptrdiff_t(chosen));
  alternatives = std::move(problems);
  order.emplace().words = std::move(best->words);
  return success();
}

} // namespace pipec
