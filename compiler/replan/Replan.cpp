#include "compiler/replan/Replan.h"

#include "compiler/driver/DesignLevel.h"
#include "compiler/driver/Diagnostics.h"
#include "compiler/driver/FromSpec.h"
#include "compiler/program/Programs.h"
#include "compiler/schedule/catalogue/Entries.h"
#include "runtime/plan/Layers.h"
#include "runtime/plan/Text.h"
#include "runtime/plan/Units.h"
#include "runtime/plan/Write.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

using namespace mlir;

namespace pipec {

using plan::Figure;

namespace {

using Specs = std::vector<spec::Spec>;

/// Cuts the spec's layers as a plan that says how.
void cutAs(const plan::Plan &plan, spec::Spec &spec) {
  const std::vector<int32_t> &cut = plan.variants.front().cut;
  spec.layers->cut = {{cut.begin(), cut.end()}, spec.layers->cutMark};
}

std::string nameOf(const spec::Spec &spec) { return spec.variantName.empty() ? spec.schedule.name : spec.variantName; }

/// What a spec and a plan differ in, and where the spec says so.
struct Difference {
  spec::Mark mark;
  std::string message;
};

/// Where the spec says what a pass takes.
const spec::Mark &markOf(const spec::Spec &spec, const plan::Operation &operation) {
  const auto stage = size_t(operation.stage % std::max(1, spec.stages));
  const spec::PerStage &values =
      operation.kind == plan::Kind::Forward                                              ? spec[Figure::Forward]
      : operation.kind == plan::Kind::BackwardWeight && spec.has(Figure::BackwardWeight) ? spec[Figure::BackwardWeight]
      : operation.kind == plan::Kind::BackwardInput && spec.has(Figure::BackwardInput)   ? spec[Figure::BackwardInput]
      : spec.has(Figure::Backward)                                                       ? spec[Figure::Backward]
      : spec.has(Figure::BackwardInput)                                                  ? spec[Figure::BackwardInput]
                                                                                         : spec[Figure::Forward];
  return values.list ? values.markOf(stage) : values.mark;
}

/// Estimates are in percent of the plan's costs, and buffers hold the plan's payloads.
std::optional<Difference> differenceOfCosts(const spec::Spec &spec, const plan::Program &own,
                                            const plan::Program &running) {
  for (const plan::Operation &each : own.operations)
    for (const plan::Operation &other : running.operations) {
      if (each.kind != other.kind || each.stage != other.stage || each.of != other.of)
        continue;
      if (plan::isCompute(each.kind) && each.cost != other.cost)
        return Difference{markOf(spec, each),
                          fmt::format("{} of stage {} takes {} by the spec and {} in the plan", plan::name(each.kind),
                                      each.stage, plan::timeText(each.cost), plan::timeText(other.cost))};
      if (plan::sends(each.kind) && each.bytes != other.bytes)
        return Difference{each.of == plan::Payload::Backward && spec.has(Figure::BoundaryGradient)
                              ? spec[Figure::BoundaryGradient].mark
                              : spec[Figure::Boundary].mark,
                          fmt::format("stage {} sends {} by the spec and {} in the plan", each.stage,
                                      plan::bytesText(each.bytes), plan::bytesText(other.bytes))};
    }
  return std::nullopt;
}

std::optional<Difference> difference(const spec::Spec &spec, const plan::Plan &own, const plan::Plan &running) {
  const plan::Variant &made = own.variants.front(), &first = running.variants.front();
  const spec::Mark &placement = spec.placement ? spec.placement->mark : spec.schedule.mark;
  if (made.copies != first.copies)
    return Difference{placement,
                      fmt::format("the spec has {} of each stage, the plan {}: weights do not move",
                                  made.copies == 1 ? "one copy" : "two copies", first.copies == 1 ? "one" : "two")};
  for (size_t rank = 0; rank != made.programs.size(); ++rank)
    if (made.programs[rank].stages != first.programs[rank].stages)
      return Difference{placement, fmt::format("the spec holds stages {} on rank {}, the plan {}: weights do not move",
                                               fmt::join(made.programs[rank].stages, ", "), rank,
                                               fmt::join(first.programs[rank].stages, ", "))};
  if (!own.groups.empty() && own.groups != running.groups)
    return Difference{spec.costs, "the spec has other groups of ranks for its collectives than the plan"};
  for (const plan::Variant &each : running.variants)
    if (each.microbatches == made.microbatches && each.slices == made.slices)
      for (size_t rank = 0; rank != made.programs.size(); ++rank)
        if (std::optional<Difference> found = differenceOfCosts(spec, made.programs[rank], each.programs[rank]))
          return found;
  return std::nullopt;
}

/// What can be seen before anything is compiled.
std::optional<Difference> difference(const Specs &specs, const plan::Plan &running) {
  const spec::Spec &spec = specs.front();
  if (running.degree() > 1 || running.shards() > 1)
    return Difference{running.degree() > 1 ? spec.dataParallel.mark : spec.tensorParallel.mark,
                      fmt::format("the plan has {}, and plans of {} are not made anew for what was measured yet: run "
                                  "it without --replan; with --adapt it may go over to another of its variants",
                                  running.degree() > 1 ? "replicas" : "shards",
                                  running.degree() > 1 ? "replicas" : "shards")};
  if (spec.ranks.value != running.ranks())
    return Difference{spec.ranks.mark,
                      fmt::format("the spec has {} ranks, the plan {}", spec.ranks.value, running.ranks())};
  const int32_t layers = plan::layersOf(running.variants.front());
  if (spec.layers && layers != 0 && spec.layers->count() != layers)
    return Difference{spec.layers->mark,
                      fmt::format("the spec has {} layers, the plan {}", spec.layers->count(), layers)};
  if (spec.layers && spec.layers->choosesCut && running.variants.front().cut.empty())
    return Difference{spec.layers->cutMark, "pipeline.cut: auto may choose another cut than the plan's, which does not "
                                            "say its own: give the layers of each stage"};
  return std::nullopt;
}

/// Reads specs, and what they have to do with a running plan.
class Replanning {
public:
  Replanning(const Source &source, const plan::Plan &running, Failure &failure)
      : running(running), failure(failure), context(MLIRContext::Threading::DISABLED),
        first(context, failure, Said::Everything) {
    context.printOpOnDiagnostic(false);
    isRead = readSpecs(source.path, source.set, specs, failure);
  }

  /// False after saying what does not go with the plan.
  bool begin() {
    if (!isRead)
      return false;
    if (std::optional<Difference> found = difference(specs, running))
      return refuse(specs.front(), *found);
    std::set<int64_t> theirs;
    for (const plan::Variant &each : running.variants)
      theirs.insert(each.wholeMicrobatches());
    const spec::Marked<int32_t> own = specs.front().microbatches;
    const spec::Spec spec = specs.front();
    std::erase_if(specs, [&](const spec::Spec &each) { return !theirs.contains(each.microbatches.value); });
    if (specs.empty())
      return refuse(spec, {own.mark, fmt::format("the spec has {} microbatches, the plan {}", own.value,
                                                 fmt::join(theirs, " or "))});
    for (spec::Spec &each : specs)
      keepCut(each);
    return true;
  }

  bool refuse(const spec::Spec &spec, const Difference &found) {
    emitError(locationOf(spec, found.mark, context)) << found.message;
    failure.code = Code::Input;
    return false;
  }

  /// Why a spec has no plan that may run.
  struct Missing {
    std::optional<Difference> differs; // from the plan that runs
    bool isWrong = false;              // the spec, and not only too large for memory
  };

  /// Compiles a spec, and holds it against the plan.
  std::optional<Replanned> compiled(const spec::Spec &spec, Missing &missing) {
    Compiled made;
    Failure why;
    missing.isWrong = !compile(spec, made, why, Said::Nothing) && why.code == Code::Input;
    if (why.code != Code::Ok)
      return std::nullopt;
    missing.differs = difference(spec, made.plan, running);
    if (missing.differs)
      return std::nullopt;
    made.plan.variants.front().name = nameOf(spec);
    made.bytes = plan::encode(made.plan);
    return Replanned{nameOf(spec), std::move(made.plan), std::move(made.bytes)};
  }

  /// Compiles the spec's variants. One that is wrong is an error; one that does not fit, or does not go with the plan,
  /// is left out where others do.
  bool own(std::vector<Replanned> &made) {
    for (const spec::Spec &each : specs) {
      Missing missing;
      if (std::optional<Replanned> plan = compiled(each, missing))
        made.push_back(std::move(*plan));
      else if (missing.isWrong)
        return say(each);
      else if (missing.differs && !differs)
        differs.emplace(each, *missing.differs);
    }
    return true;
  }

  /// Why there is no plan at all; false.
  bool sayWhy() { return differs ? refuse(differs->first, differs->second) : say(specs.front()); }

  Specs specs;

private:
  /// Why a spec does not compile.
  bool say(const spec::Spec &spec) const {
    Compiled ignored;
    return compile(spec, ignored, failure);
  }

  /// A swap moves no weights, so the layers stay where they are: where the run has put them, if it did since the spec.
  void keepCut(spec::Spec &spec) const {
    if (spec.layers && !running.variants.front().cut.empty())
      cutAs(running, spec);
  }

  const plan::Plan &running;
  Failure &failure;
  MLIRContext context;
  FirstError first;
  std::optional<std::pair<spec::Spec, Difference>> differs; // the first variant that does
  bool isRead = false;
};

spec::Parameter listOf(const std::vector<int64_t> &values, const spec::Mark &mark) {
  spec::Parameter made{{}, {}, mark, true};
  for (const int64_t each : values) {
    made.values.push_back(std::to_string(each));
    made.marks.push_back(mark);
  }
  return made;
}

/// Slack per link for what was measured, as much of it as memory holds. Of few microbatches a little less of it may be
/// shorter: it fills and drains faster.
Specs withSlack(const spec::Spec &spec, bool splits) {
  constexpr int64_t kPeriods[] = {100, 101, 105}; // percent of the shortest
  if (spec.stages != spec.ranks.value)
    return {};
  spec::Spec made = spec;
  made.schedule = {"slack", spec.schedule.mark, {}};
  made.backwardMode = {splits ? spec::Backward::Split : spec::Backward::Fused, spec.schedule.mark};
  made.weights.value = splits ? spec::Weights::Fill : spec::Weights::Ordered;
  MLIRContext context(MLIRContext::Threading::DISABLED);
  ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
  const Imported imported = fromSpec(made, context);
  if (!imported.module)
    return {};
  const schedule::Problem problem = problemOf(findPipeline(*imported.module));
  const schedule::Time least = schedule::leastSlackPeriod(problem);
  std::set<std::vector<int64_t>> known;
  Specs all;
  for (const int64_t percent : kPeriods) {
    const std::optional<std::vector<int64_t>> slack =
        schedule::slackWithin(problem, schedule::Time(__int128(least) * percent / 100));
    if (!slack || !known.insert(*slack).second)
      continue;
    made.schedule.parameters["per_link"] = listOf(*slack, spec.schedule.mark);
    made.variantName = units::cutName(fmt::format("slack {}{}", fmt::join(*slack, "-"), splits ? ", W deferred" : ""));
    all.push_back(made);
  }
  return all;
}

/// The schedule of a spec with W deferred, where it has a W of its own.
std::optional<spec::Spec> withFill(const spec::Spec &spec) {
  const schedule::Entry *entry = schedule::find(spec.schedule.name);
  if (!entry || !entry->allowsSplit || !spec.has(Figure::BackwardInput) || spec.weights.value == spec::Weights::Fill)
    return std::nullopt;
  spec::Spec made = spec;
  made.backwardMode = {spec::Backward::Split, spec.schedule.mark};
  made.weights.value = spec::Weights::Fill;
  made.variantName = units::cutName(nameOf(spec) + ", W deferred");
  return made;
}

/// A search for an order, on the placement of the plan that runs.
std::optional<spec::Spec> withAuto(const spec::Spec &spec, const plan::Plan &running) {
  spec::Spec made = spec;
  made.schedule = {"auto", spec.schedule.mark, {}};
  made.backwardMode = {spec.has(Figure::BackwardInput) ? spec::Backward::Split : spec::Backward::Fused,
                       spec.schedule.mark};
  made.weights.value = spec::Weights::Ordered;
  made.variantName = "auto";
  if (!made.placement && running.variants.front().copies == 1) {
    made.placement.emplace();
    made.placement->kind = spec::PlacementKind::List;
    made.placement->mark = spec.schedule.mark;
    for (const plan::Program &program : running.variants.front().programs)
      made.placement->stages.push_back(program.stages);
  }
  return made;
}

/// What else the specs allow, once for each number of microbatches.
Specs moreOf(const Specs &specs, const plan::Plan &running) {
  Specs more;
  const auto add = [&](std::optional<spec::Spec> made) {
    if (made)
      more.push_back(std::move(*made));
  };
  std::set<int32_t> known;
  for (const spec::Spec &each : specs) {
    add(withFill(each));
    if (!known.insert(each.microbatches.value).second)
      continue;
    for (const bool splits : {false, true})
      if (!splits || each.has(Figure::BackwardInput))
        for (spec::Spec &slack : withSlack(each, splits))
          more.push_back(std::move(slack));
    add(withAuto(each, running));
  }
  return more;
}

} // namespace

bool replan(const Source &source, const plan::Plan &running, const spec::Measured &measured,
            std::vector<Replanned> &made, Failure &failure) {
  Replanning replanning(source, running, failure);
  if (!replanning.begin())
    return false;
  Specs &specs = replanning.specs;
  for (spec::Spec &each : specs)
    each.measured = measured;
  if (!replanning.own(made))
    return false;
  for (const spec::Spec &each : moreOf(specs, running)) {
    Replanning::Missing ignored;
    if (std::optional<Replanned> plan = replanning.compiled(each, ignored))
      made.push_back(std::move(*plan));
  }
  return !made.empty() || replanning.sayWhy();
}

std::vector<Replanned> recut(const Source &source, const plan::Plan &running, const spec::Measured &measured) {
  std::vector<Replanned> made;
  Specs specs;
  Failure failure;
  if (!readSpecs(source.path, source.set, specs, failure, Said::Nothing) || !specs.front().layers ||
      specs.front().ranks.value != running.ranks())
    return made;
  const auto add = [&](const spec::Spec &each) {
    Compiled compiled;
    if (!compile(each, compiled, failure, Said::Nothing))
      return;
    plan::Variant &variant = compiled.plan.variants.front();
    variant.name = units::cutName(fmt::format("{}, cut {}", nameOf(each), fmt::join(variant.cut, "-")));
    std::vector<uint8_t> bytes = plan::encode(compiled.plan);
    made.push_back({variant.name, std::move(compiled.plan), std::move(bytes)});
  };
  for (spec::Spec &each : specs) {
    each.layers->choosesCut = true;
    each.layers->cut.reset();
    each.measured = measured;
    if (!made.empty())
      cutAs(made.front().plan, each); // variants share it
    add(each);
  }
  if (made.empty())
    return made;
  for (spec::Spec &each : specs)
    cutAs(made.front().plan, each);
  for (const spec::Spec &each : moreOf(specs, running))
    add(each);
  return made;
}

bool checkReplan(const Source &source, const plan::Plan &running, Failure &failure) {
  Replanning replanning(source, running, failure);
  if (!replanning.begin())
    return false;
  std::vector<Replanned> made;
  return replanning.own(made) && (!made.empty() || replanning.sayWhy());
}

} // namespace pipec
