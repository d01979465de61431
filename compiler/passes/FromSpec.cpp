#include "compiler/passes/FromSpec.h"

#include "compiler/passes/DesignLevel.h"
#include "compiler/schedule/Catalogue.h"
#include "compiler/schedule/Evaluate.h"
#include "compiler/schedule/OrderCsv.h"
#include "compiler/schedule/Problem.h"
#include "compiler/schedule/Search.h"
#include "compiler/spec/Reader.h"
#include "compiler/spec/Stages.h"
#include "runtime/plan/Limits.h"
#include "runtime/plan/Load.h"
#include "runtime/plan/Text.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"

#include <future>

using namespace mlir;

namespace pipec {

using namespace pipe;

namespace {

/// Where the passes of a problem come from: the catalogue, the spec's own block, or an order file. Fills in what the
/// source fixes (placement, backward, block or words); every contradiction is an error at its place.
class Import : Design {
public:
  Import(spec::Spec given, MLIRContext &context, int32_t buffers)
      : spec(std::move(given)), context(context), buffers(buffers) {}

  Imported run() {
    Imported imported;
    imported.module = module();
    imported.code = code;
    imported.alternatives = std::move(alternatives);
    return imported;
  }

  /// What a schedule of the catalogue takes of this spec; none where it does not go with it.
  struct Taken {
    std::pair<schedule::Time, schedule::Bytes> cost; // its time, and of the same, what it holds at most
    __int128 excess; // of the fullest rank over its limit, with one transfer buffer an end
  };
  std::optional<Taken> taken(schedule::Objective by) {
    if (failed(catalogueEntry()) || failed(settle()) || failed(fillAndCheck()) || failed(checkLength()))
      return std::nullopt;
    const schedule::Evaluation evaluation = schedule::evaluate(problem, schedule::wordsOf(*entry, problem, parameters));
    if (!evaluation.complete)
      return std::nullopt;
    Taken result{{by == schedule::Objective::Span ? evaluation.span : evaluation.makespan,
                  *std::max_element(evaluation.peak.begin(), evaluation.peak.end())},
                 0};
    const std::vector<__int128> always = schedule::heldAlways(problem, 1);
    for (size_t rank = 0; problem.memoryLimit != 0 && rank != always.size(); ++rank)
      result.excess = std::max(result.excess, always[rank] + evaluation.peak[rank] - problem.memoryLimit);
    return result;
  }

  /// Of `auto`, where it takes what the catalogue has: the spec with the fastest of it that fits. None after an error.
  std::optional<spec::Spec> withEntry() {
    if (failed(autoParameters()))
      return std::nullopt;
    const bool bothWays = spec.placement && spec.placement->kind == spec::PlacementKind::Bidirectional;
    std::optional<std::pair<std::pair<schedule::Time, schedule::Bytes>, std::string>> best;
    std::optional<std::pair<__int128, std::string>> nearest;
    for (const schedule::Entry &each : schedule::catalogue()) {
      if ((each.copies() == 2) != bothWays || (spec.slices.value > 1 && !each.allowsSlices))
        continue;
      spec::Spec trial = spec;
      trial.schedule = {std::string(each.name), spec.schedule.mark, {}};
      ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
      const std::optional<Taken> found = Import(trial, context, buffers).taken(*objective);
      if (found && found->excess <= 0 && (!best || found->cost < best->first))
        best.emplace(found->cost, each.name);
      if (found && (!nearest || found->excess < nearest->first))
        nearest.emplace(found->excess, each.name);
    }
    if (!best && !nearest) {
      error(spec.schedule.mark)
          << "auto has no order for slices or a bidirectional placement but the catalogue's, none of "
             "which goes with the rest of the spec: name one to see why";
      return std::nullopt;
    }
    spec.schedule = {best ? best->second : nearest->second, spec.schedule.mark, {}};
    return spec; // where none fits, check-memory says what is missing
  }

  SearchSpace space() {
    if (spec.schedule.name != "auto")
      spec.schedule = {"auto", spec.schedule.mark, {}};
    if (failed(autoSchedule()) || failed(settle()) || failed(fillAndCheck()))
      return {};
    return {placements(), *objective};
  }

private:
  OwningOpRef<ModuleOp> module() {
    LogicalResult chosen = spec.schedule.name == "block"   ? customBlock()
                           : spec.schedule.name == "order" ? orderFile()
                           : spec.schedule.name == "auto"  ? autoSchedule()
                                                           : catalogueEntry();
    if (failed(chosen) || failed(settle()) || failed(fillAndCheck()))
      return nullptr;
    if (entry && entry->block)
      block = entry->block(problem);
    if (objective && failed(search()))
      return nullptr;
    if (failed(checkPairs()) || failed(checkLength()))
      return nullptr;
    return designLevel(spec, *this, context);
  }

  /// Two passes that run at once take no less than the longer one, and no more than one after the other, or they would.
  LogicalResult checkPairs() {
    const std::vector<std::vector<int32_t>> stages = problem.stagesByRank();
    auto check = [&](int32_t forward, int32_t backward) -> LogicalResult {
      const schedule::Stage &stage = problem.stages[size_t(forward)];
      const schedule::Time other = problem.stages[size_t(backward)].backward;
      if (!stage.overlapped ||
          (*stage.overlapped >= std::max(stage.forward, other) && *stage.overlapped - stage.forward <= other))
        return success();
      const int32_t ofCopy = problem.stagesOfCopy();
      return error(spec.overlapped->markOf(size_t(forward % ofCopy)))
                 << "costs.overlapped: the forward of stage " << forward % ofCopy << " ("
                 << plan::timeText(stage.forward) << ") and the backward of stage " << backward % ofCopy << " ("
                 << plan::timeText(other) << ") take between " << plan::timeText(std::max(stage.forward, other))
                 << ", the longer of the two, and " << plan::timeText(stage.forward + other)
                 << ", one after the other; found " << plan::timeText(*stage.overlapped),
             failure();
    };
    if (order) {
      for (const schedule::Word &word : order->words)
        for (size_t i = 0; i != word.size(); ++i)
          if (word[i].overlapped && failed(check(word[i].stage, word[i + 1].stage)))
            return failure();
      return success();
    }
    for (const std::vector<int32_t> &mine : stages) // those of the catalogue pair what two stages do
      for (const int32_t forward : mine)
        for (const int32_t backward : mine)
          if (forward != backward && failed(check(forward, backward)))
            return failure();
    return success();
  }

  LogicalResult fillAndCheck() {
    fillProblem(problem);
    std::string wrong = schedule::checkShape(problem);
    if (wrong.empty())
      if (std::string tooLong = schedule::checkTimes(problem); !tooLong.empty())
        return error(spec.costs) << tooLong, failure();
    if (wrong.empty() && failed(checkParameters()))
      return failure();
    if (wrong.empty() && entry)
      wrong = schedule::check(*entry, problem, parameters);
    if (!wrong.empty())
      return error(spec.schedule.mark) << wrong, failure();
    return success();
  }

  Location at(const spec::Mark &mark) { return locationOf(spec, mark, context); }
  InFlightDiagnostic error(const spec::Mark &mark) { return emitError(at(mark)); }

  //===--------------------------------------------------------------------===//
  // A schedule of the catalogue
  //===--------------------------------------------------------------------===//

  LogicalResult catalogueEntry() {
    entry = schedule::find(spec.schedule.name);
    if (!entry)
      return unknownSchedule(), failure();
    for (const auto &[name, parameter] : spec.schedule.parameters)
      if (failed(readNumbers(name, parameter)))
        return failure();
    int32_t perRank = entry->stagesPerRank ? entry->stagesPerRank
                      : spec.stagesPerRank ? spec.stagesPerRank->value
                                           : entry->usualStagesPerRank;
    if (spec.stagesPerRank && spec.stagesPerRank->value != perRank)
      return error(spec.stagesPerRank->mark)
                 << "schedule '" << entry->name << "' has " << perRank << (perRank == 1 ? " stage" : " stages")
                 << " a rank, found stages_per_rank: " << spec.stagesPerRank->value,
             failure();
    int32_t stages = spec.ranks.value * perRank;
    if (spec.stagesGiven && spec.stages != stages)
      return error(spec.placement ? spec.placement->mark : spec.pipeline)
                 << "schedule '" << entry->name << "' has " << perRank << (perRank == 1 ? " stage" : " stages")
                 << " a rank, " << stages << " in all, found " << spec.stages,
             failure();
    problem.copies = entry->copies();
    problem.rankOf = schedule::placementOf(*entry, spec.ranks.value, stages);
    const std::string way = problem.copies == 2 ? "both ways (bidirectional)"
                            : entry->placement == "v"
                                ? "in a v (there and back over the ranks)"
                                : "in a loop (stage s on rank s mod " + std::to_string(spec.ranks.value) + ")";
    if (failed(agreesWithPlacement("schedule '" + std::string(entry->name) + "' places stages " + way)))
      return failure();
    if (spec.microbatches.value % problem.copies != 0)
      return error(spec.microbatches.mark) << "schedule '" << entry->name
                                           << "' sends half of the microbatches each way, expected an even number of "
                                              "them, found "
                                           << spec.microbatches.value,
             failure();
    bool fused = entry->defaultBackward == schedule::BackwardMode::Fused;
    if (spec.backwardMode)
      fused = spec.backwardMode->value == spec::Backward::Fused;
    if (fused ? !entry->allowsFused : !entry->allowsSplit)
      return error(spec.backwardMode->mark)
                 << "schedule '" << entry->name << "' does not have a " << (fused ? "fused" : "split") << " backward",
             failure();
    return setBackward(fused ? schedule::BackwardMode::Fused : schedule::BackwardMode::Split);
  }

  /// A number, or a list of them; which of the two, schedule::check knows.
  LogicalResult readNumbers(const std::string &name, const spec::Parameter &parameter) {
    std::vector<int64_t> values;
    for (size_t i = 0; i != parameter.values.size(); ++i)
      if (StringRef(parameter.values[i]).getAsInteger(10, values.emplace_back()))
        return error(parameter.marks[i]) << "expected an integer as '" << name << "' of schedule '" << entry->name
                                         << "', found '" << parameter.values[i] << "'",
               failure();
    parameters.emplace(name, parameter.list ? schedule::Given(std::move(values)) : schedule::Given(values.front()));
    return success();
  }

  void unknownSchedule() {
    auto diagnostic = error(spec.schedule.mark) << "unknown schedule '" << spec.schedule.name << "'";
    if (auto near = schedule::nearest(spec.schedule.name); !near.empty())
      diagnostic << ", did you mean '" << near << "'?";
    std::string known;
    for (const schedule::Entry &each : schedule::catalogue())
      known += std::string(each.name) + ", ";
    diagnostic.attachNote() << "known schedules: " << known << "auto, block, order";
  }

  /// Each parameter by itself, so that the error stands where it does.
  LogicalResult checkParameters() {
    if (!entry)
      return success();
    for (const auto &[name, value] : parameters)
      if (std::string wrong = schedule::check(*entry, problem, {{name, value}}); !wrong.empty())
        return error(spec.schedule.parameters.at(name).mark) << wrong, failure();
    return success();
  }

  /// What the order makes of the costs, on links that never queue; looked at only where all of it in a row takes too
  /// long, and not of what is longest to make: the walk of the plan finds the rest.
  LogicalResult checkLength() {
    constexpr int64_t kMost = int64_t(1) << 24;
    if (schedule::isNeverTooLong(problem) || int64_t(problem.stages.size()) * problem.microbatches > kMost ||
        (block && !schedule::check(problem, *block).empty()))
      return success();
    const schedule::Words words = order   ? order->words
                                  : block ? schedule::repeat(problem, *block)
                                          : schedule::wordsOf(*entry, problem, parameters);
    if (!schedule::evaluate(problem, words, {.withSpan = false}).tooLong)
      return success();
    return error(spec.costs) << "a step takes longer than " << limits::kTime
                             << " ps (about 11 days), the longest step: fewer microbatches, shorter costs or faster "
                                "links",
           failure();
  }

  //===--------------------------------------------------------------------===//
  // The spec's own block
  //===--------------------------------------------------------------------===//

  LogicalResult customBlock() {
    block.emplace();
    std::vector<int64_t> interval;
    for (const auto &[name, parameter] : spec.schedule.parameters) {
      std::vector<int64_t> *slots = name == "interval"          ? &interval
                                    : name == "forward"         ? &block->forward
                                    : name == "backward_input"  ? &block->backwardInput
                                    : name == "backward"        ? &block->backwardInput
                                    : name == "backward_weight" ? &block->backwardWeight
                                                                : nullptr;
      if (!slots)
        return error(parameter.mark)
                   << "schedule 'block' has no parameter '" << name
                   << "', expected interval, forward, backward_input and backward_weight (or backward)",
               failure();
      if (!slots->empty())
        return error(parameter.mark) << "give either backward or backward_input, found both", failure();
      if (failed(readSlots(name, parameter, *slots)))
        return failure();
    }
    bool split = !block->backwardWeight.empty();
    if (interval.empty() || block->forward.empty() || block->backwardInput.empty())
      return error(spec.schedule.mark)
                 << "schedule 'block' needs interval, forward and backward_input (or backward), a start "
                    "slot for each stage",
             failure();
    block->interval = interval.front();
    if (block->interval < 1)
      return error(spec.schedule.parameters.at("interval").mark)
                 << "expected an interval of at least 1, found " << block->interval,
             failure();
    problem.rankOf = placedAsSpecSays(size_t(spec.stages));
    if (failed(agreesWithPlacement("a block has each stage on one rank")))
      return failure();
    if (spec.backwardMode && (spec.backwardMode->value == spec::Backward::Split) != split)
      return error(spec.backwardMode->mark)
                 << "the block has " << (split ? "slots" : "no slots") << " for backward_weight, so its backward is "
                 << (split ? "split" : "fused"),
             failure();
    return setBackward(split ? schedule::BackwardMode::Split : schedule::BackwardMode::Fused);
  }

  LogicalResult readSlots(const std::string &name, const spec::Parameter &parameter, std::vector<int64_t> &slots) {
    if (parameter.list == (name == "interval"))
      return error(parameter.mark) << "expected "
                                   << (parameter.list ? "one number" : "a list of start slots, one a stage") << " as '"
                                   << name << "'",
             failure();
    if (parameter.list && parameter.values.size() != size_t(spec.stages))
      return error(parameter.mark) << "expected " << spec.stages << " start slots in '" << name
                                   << "', one a stage, found " << parameter.values.size(),
             failure();
    for (size_t i = 0; i != parameter.values.size(); ++i) {
      int64_t value = 0;
      if (StringRef(parameter.values[i]).getAsInteger(10, value) || value < 0 || value > limits::kTime)
        return error(parameter.marks[i]) << "expected a whole number from 0 to " << limits::kTime << ", found '"
                                         << parameter.values[i] << "'",
               failure();
      slots.push_back(value);
    }
    return success();
  }

  /// Loop where the spec says nothing; v: there and back, as often as there are chunks; bidirectional: of two copies.
  std::vector<int32_t> placedAsSpecSays(size_t stages) const {
    if (spec.placement && spec.placement->kind == spec::PlacementKind::Bidirectional)
      return schedule::placedBothWays(spec.ranks.value, int32_t(stages));
    std::vector<int32_t> rankOf = schedule::placed(spec.ranks.value, int32_t(stages),
                                                   spec.placement && spec.placement->kind == spec::PlacementKind::V);
    if (spec.placement && spec.placement->kind == spec::PlacementKind::List)
      for (size_t rank = 0; rank != spec.placement->stages.size(); ++rank)
        for (int32_t stage : spec.placement->stages[rank])
          rankOf[size_t(stage)] = int32_t(rank);
    return rankOf;
  }

  //===--------------------------------------------------------------------===//
  // An order file
  //===--------------------------------------------------------------------===//

  LogicalResult orderFile() {
    const spec::Parameter *file = nullptr;
    for (const auto &[name, parameter] : spec.schedule.parameters) {
      if (name != "file")
        return error(parameter.mark) << "schedule 'order' has no parameter '" << name << "', expected file", failure();
      file = &parameter;
    }
    if (!file || file->list)
      return error(file ? file->mark : spec.schedule.mark) << "schedule 'order' needs one file", failure();
    std::string path = spec::resolvePath(spec, file->values.front());
    std::vector<uint8_t> bytes;
    if (Status status = plan::readBytes(path, limits::kOrderBytes, bytes); !status.ok())
      return error(file->mark) << status.message, failure();
    order.emplace();
    schedule::OrderError wrong;
    std::string_view text(reinterpret_cast<const char *>(bytes.data()), bytes.size());
    if (!schedule::readOrder(text, *order, wrong))
      return emitError(FileLineColLoc::get(&context, path, unsigned(wrong.line), unsigned(wrong.column)))
                 << wrong.message,
             failure();
    // Where nobody says what a pair takes, its two run one after the other, as PyTorch's do unless told how to overlap.
    for (schedule::Word &word : order->words)
      for (schedule::Op &op : word)
        op.overlapped &= spec.overlapped.has_value();
    order->overlaps &= spec.overlapped.has_value();
    return agreesWithOrder(*file);
  }

  /// What the file fixes, the spec may repeat but not contradict.
  LogicalResult agreesWithOrder(const spec::Parameter &file) {
    if (int32_t(order->words.size()) != spec.ranks.value)
      return error(spec.ranks.mark) << "the order file has " << order->words.size()
                                    << " rows, one a rank, found ranks: " << spec.ranks.value,
             failure();
    if (order->microbatches != spec.microbatches.value)
      return error(spec.microbatches.mark) << "the order file has " << order->microbatches
                                           << " microbatches, found microbatches: " << spec.microbatches.value,
             failure();
    if (spec.stagesGiven && int32_t(order->rankOf.size()) != spec.stages)
      return error(spec.stagesPerRank ? spec.stagesPerRank->mark : spec.placement->mark)
                 << "the order file has " << order->rankOf.size() << " stages, found " << spec.stages,
             failure();
    problem.rankOf = order->rankOf;
    if (failed(agreesWithPlacement("the order file places stages another way")))
      return failure();
    problem.ranks = spec.ranks.value;
    problem.microbatches = spec.microbatches.value;
    bool split = order->backward == schedule::BackwardMode::Split;
    if (spec.backwardMode && (spec.backwardMode->value == spec::Backward::Split) != split)
      return error(spec.backwardMode->mark) << "the order file has a " << (split ? "split" : "fused") << " backward",
             failure();
    problem.stages.resize(problem.rankOf.size());
    problem.backward = order->backward;
    if (std::string wrong = schedule::verify(problem, order->words); !wrong.empty())
      return error(file.mark) << wrong, failure();
    problem.stages.clear();
    return setBackward(order->backward);
  }

  //===--------------------------------------------------------------------===//
  // What the search finds
  //===--------------------------------------------------------------------===//

  LogicalResult autoParameters() {
    objective = schedule::Objective::Span;
    for (const auto &[name, parameter] : spec.schedule.parameters) {
      if (name != "objective")
        return error(parameter.mark) << "schedule 'auto' has no parameter '" << name << "', expected objective",
               failure();
      if (parameter.list || (parameter.values.front() != "span" && parameter.values.front() != "makespan"))
        return error(parameter.mark) << "expected span or makespan as 'objective' of schedule 'auto'", failure();
      if (parameter.values.front() == "makespan")
        objective = schedule::Objective::Makespan;
    }
    return success();
  }

  LogicalResult autoSchedule() {
    if (failed(autoParameters()))
      return failure();
    problem.rankOf = placedAsSpecSays(size_t(spec.stages));
    if (failed(agreesWithPlacement("auto has each stage on one rank")))
      return failure();
    const bool fused = spec.backwardMode && spec.backwardMode->value == spec::Backward::Fused;
    return setBackward(fused ? schedule::BackwardMode::Fused : schedule::BackwardMode::Split);
  }

  /// The placements that the spec allows: loop, and there and back where it says none.
  std::vector<schedule::Problem> placements() {
    std::vector<schedule::Problem> problems{problem};
    if (!spec.placement && spec.stages > spec.ranks.value) {
      schedule::Problem &back = problems.emplace_back();
      back.backward = problem.backward;
      back.rankOf = schedule::placed(spec.ranks.value, spec.stages, true);
      fillProblem(back);
    }
    return problems;
  }

  /// The best words over them.
  LogicalResult search() {
    std::vector<schedule::Problem> problems = placements();
    std::optional<schedule::Solution> best;
    size_t chosen = 0;
    std::vector<std::future<std::optional<schedule::Solution>>> solutions; // side by side: each is the same anyhow
    for (const schedule::Problem &each : problems)
      solutions.push_back(std::async(std::launch::async, [this, &each] {
        return schedule::solve(each, {.objective = *objective, .buffers = buffers});
      }));
    for (size_t i = 0; i != problems.size(); ++i) {
      std::optional<schedule::Solution> found = solutions[i].get();
      if (found && (!best || found->time < best->time)) {
        best = std::move(found);
        chosen = i;
      }
    }
    if (!best) {
      code = Code::Check;
      const schedule::Bytes least = schedule::leastLimit(problem);
      return error(spec.memoryLimit.mark) << "no order fits into the limit of " << plan::bytesText(problem.memoryLimit)
                                          << " a rank; " << plan::bytesText(least) << " (" << least
                                          << "B) is the least that does, with one microbatch at a time",
             failure();
    }
    std::swap(problem, problems[chosen]);
    problems.erase(problems.begin() + ptrdiff_t(chosen));
    alternatives = std::move(problems);
    order.emplace().words = std::move(best->words);
    return success();
  }

  //===--------------------------------------------------------------------===//
  // What all have in common
  //===--------------------------------------------------------------------===//

  /// A placement in the spec must be the one that stands; `fixed` says who fixed it.
  LogicalResult agreesWithPlacement(const std::string &fixed) {
    if (!spec.placement)
      return success();
    // There and back takes two stages a rank.
    const bool bothWays = spec.placement->kind == spec::PlacementKind::Bidirectional;
    const size_t stages = problem.rankOf.size() / size_t(problem.copies);
    bool possible = spec.placement->kind == spec::PlacementKind::V ? stages > size_t(spec.ranks.value)
                                                                   : bothWays == (problem.copies == 2);
    if (possible && placedAsSpecSays(stages) == problem.rankOf)
      return success();
    return error(spec.placement->mark) << fixed << ", found another placement", failure();
  }

  LogicalResult setBackward(schedule::BackwardMode mode) {
    problem.backward = mode;
    if (mode == schedule::BackwardMode::Split && !spec.backwardInput)
      return error(spec.backward->mark)
                 << "a split backward needs costs.backward_input and costs.backward_weight, found "
                    "costs.backward",
             failure();
    return success();
  }

  /// What the spec could only say once the schedule had said how many stages there are, and what does not run yet.
  LogicalResult settle() {
    std::vector<spec::Diagnostic> diagnostics;
    if (!spec::setStages(spec, int32_t(problem.rankOf.size()) / problem.copies, diagnostics))
      return report(diagnostics, context), failure();
    if (spec.slices.value > 1 && !(entry && entry->allowsSlices))
      return error(spec.slices.mark) << "schedule '" << spec.schedule.name << "' has no order for slices, found "
                                     << spec.slices.value << "; seq1f1b and gpipe have",
             failure();
    if (spec.weights.value == spec::Weights::Fill && problem.backward == schedule::BackwardMode::Fused)
      return error(spec.weights.mark) << "weights: fill needs a split backward, found a fused one", failure();
    if (spec.weights.value == spec::Weights::Fill && order && !order->rows.empty())
      return error(spec.weights.mark) << "weights: fill has W wait for time left over, but the order file places "
                                         "transfers among them: leave its transfers out",
             failure();
    return success();
  }

  /// All but the placement and the backward, which stand.
  void fillProblem(schedule::Problem &problem) {
    problem.ranks = spec.ranks.value;
    problem.slices = spec.slices.value;
    problem.microbatches = spec.microbatches.value / problem.copies * problem.slices;
    problem.backwardGroup = entry                                 ? entry->backwardGroup(problem)
                            : order && order->lastMicrobatchFirst ? problem.microbatches
                                                                  : 1;
    problem.link = {spec.link.latency, spec.link.bandwidth};
    for (const spec::LinkException &link : spec.links)
      problem.links[{link.from, link.to}] = {link.link.latency, link.link.bandwidth};
    if (spec.globalNorm.value && problem.ranks > 1)
      problem.globalNorm = schedule::globalNormTime(problem);
    problem.staticBytes.assign(size_t(problem.ranks), 0);
    problem.workspace.assign(size_t(problem.ranks), spec.workspace.value);
    problem.memoryLimit = spec.memoryLimit.value;
    // A slice's part of a time is rounded half up, of a size up.
    auto time = [&](int64_t whole) { return (whole + problem.slices / 2) / problem.slices; };
    auto size = [&](int64_t whole) { return (whole + problem.slices - 1) / problem.slices; };
    const size_t ofCopy = problem.rankOf.size() / size_t(problem.copies);
    for (size_t i = 0; i != problem.rankOf.size(); ++i) {
      const size_t s = i % ofCopy;
      schedule::Stage &stage = problem.stages.emplace_back();
      stage.forward = time(spec.forward[s]);
      if (spec.backwardInput) {
        stage.backwardInput = time((*spec.backwardInput)[s]);
        stage.backwardWeight = time((*spec.backwardWeight)[s]);
      }
      stage.backward = spec.backward ? time((*spec.backward)[s]) : stage.backwardInput + stage.backwardWeight;
      stage.optimizer = spec.optimizer[s];
      if (spec.overlapped && ((entry && entry->overlaps) || (order && order->overlaps)))
        stage.overlapped = time((*spec.overlapped)[s]);
      stage.boundary = s + 1 == ofCopy ? 0 : size(spec.boundary[s]);
      stage.activation = size(spec.activation[s]);
      stage.context = size(spec.weightContext[s]);
      stage.gradients = spec.gradients[s];
      // Over the limit is enough to know: schedule::check refuses it.
      schedule::Bytes &held = problem.staticBytes[size_t(problem.rankOf[i])];
      held = std::min(held + spec.staticBytes[s], limits::kBytes + 1);
    }
  }

  spec::Spec spec;
  MLIRContext &context;
  int32_t buffers;                              // of a ring, that a search leaves room for
  std::optional<schedule::Objective> objective; // of a search
  std::vector<schedule::Problem> alternatives;
  Code code = Code::Input;
};

} // namespace

void report(const std::vector<spec::Diagnostic> &diagnostics, MLIRContext &context) {
  auto at = [&](const std::string &file, int line, int column) {
    return FileLineColLoc::get(&context, file, unsigned(line), unsigned(column));
  };
  for (const spec::Diagnostic &each : diagnostics) {
    InFlightDiagnostic error = emitError(at(each.file, each.line, each.column)) << each.message;
    for (const spec::Note &note : each.notes)
      error.attachNote(at(note.file, note.line, note.column)) << note.message;
  }
}

Imported fromSpec(const spec::Spec &spec, MLIRContext &context, int32_t buffers) {
  context.loadDialect<PipeDialect>();
  const bool bothWays = spec.placement && spec.placement->kind == spec::PlacementKind::Bidirectional;
  if (spec.schedule.name != "auto" || (spec.slices.value == 1 && !bothWays))
    return Import(spec, context, buffers).run();
  const std::optional<spec::Spec> chosen = Import(spec, context, buffers).withEntry();
  return chosen ? Import(*chosen, context, buffers).run() : Imported();
}

SearchSpace searchSpaceOf(const spec::Spec &spec, MLIRContext &context) { return Import(spec, context, 1).space(); }

} // namespace pipec
