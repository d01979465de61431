#include "compiler/driver/FromSpec.h"

#include "compiler/driver/CompileMemory.h"
#include "compiler/driver/FromSpecImport.h"
#include "compiler/schedule/construct/Refill.h"
#include "compiler/schedule/evaluate/Buffers.h"
#include "compiler/schedule/evaluate/Evaluate.h"
#include "compiler/schedule/exchange/Replicas.h"
#include "compiler/schedule/improve/Fuse.h"
#include "compiler/schedule/overlap/Pairing.h"
#include "compiler/shards/ShardedRanks.h"
#include "compiler/spec/Stages.h"
#include "runtime/plan/Limits.h"
#include "runtime/plan/Text.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace pipec {

using plan::Figure;
using namespace pipe;

Imported Import::run() {
  Imported imported;
  imported.module = module();
  imported.code = code;
  imported.objective = objective.value_or(schedule::Objective::Span);
  imported.alternatives = std::move(alternatives);
  return imported;
}

OwningOpRef<ModuleOp> Import::module() {
  if (failed(choose()) || failed(settle()) || failed(fillAndCheck()))
    return nullptr;
  if (entry && entry->block)
    block = entry->block(problem);
  else if (block && failed(checkBlock()))
    return nullptr;
  if (failed(checkPairs()) || (objective && failed(search())) || failed(checkLength()))
    return nullptr;
  if (mixes() && !objective) {
    order.emplace(order.value_or(schedule::Order())).words = mixedWords();
    block.reset();
  }
  if (hasShards(spec))
    shards = ranksOf(problem).shards();
  return designLevel(spec, *this, context);
}

ShardedRanks Import::ranksOf(const schedule::Problem &filled) const {
  return {spec, filled, spec::cutOf(spec, filled.stagesOfCopy()), inFlight};
}

LogicalResult Import::settle() {
  std::vector<spec::Diagnostic> diagnostics;
  if (!spec::setStages(spec, int32_t(problem.rankOf.size()) / problem.copies, diagnostics))
    return report(diagnostics, context), failure();
  if (spec.slices.value > 1 && !(entry && entry->allowsSlices) && spec.schedule.name != "order")
    return error(spec.slices.mark) << "schedule '" << spec.schedule.name << "' has no order for slices, found "
                                   << spec.slices.value
                                   << "; seq1f1b and gpipe have, and {name: order} takes one from a file",
           failure();
  if (hasShards(spec) && (problem.copies > 1 || (entry && entry->overlaps)))
    return error(spec.schedule.mark) << "schedule '" << spec.schedule.name << "' has "
                                     << (problem.copies > 1 ? "two copies of the stages" : "overlapped pairs")
                                     << ", which are not supported yet with shards",
           failure();
  if (!spec.shared.empty() && problem.copies > 1)
    return error(spec.shared.front().mark)
               << "shared: weights that several layers hold are not supported yet with two copies of the stages, which "
                  "schedule '"
               << spec.schedule.name << "' has",
           failure();
  if (mixes() && failed(checkMixed()))
    return failure();
  if (spec.weights.value == spec::Weights::Fill && problem.backward == schedule::BackwardMode::Fused)
    return error(spec.weights.mark) << "weights: fill needs a split backward, found a fused one", failure();
  if (spec.weights.value == spec::Weights::Fill && order && !order->rows.empty())
    return error(spec.weights.mark) << "weights: fill has W wait for time left over, but the order file places "
                                       "transfers among them: leave its transfers out",
           failure();
  return success();
}

/// A slice's part of a time is rounded half up, of a size up.
static int64_t timeOfSlice(int64_t whole, int32_t slices) { return (whole + slices / 2) / slices; }
static int64_t sizeOfSlice(int64_t whole, int32_t slices) { return (whole + slices - 1) / slices; }

schedule::Again Import::againOf(size_t stage) const {
  const int32_t slices = spec.slices.value;
  return {
      sizeOfSlice(spec::recomputeInputOf(spec, int64_t(stage)), slices),
      timeOfSlice(spec.has(Figure::Recompute) ? spec[Figure::Recompute][stage] : spec[Figure::Forward][stage], slices)};
}

/// What operations take on a rank that takes so many percent of its costs, rounded as the simulator does.
static void slow(schedule::Stage &stage, int64_t percent) {
  const auto scale = [percent](schedule::Time &time) { time = schedule::Time((__int128(time) * percent + 50) / 100); };
  for (schedule::Time schedule::Stage::*each :
       {&schedule::Stage::forward, &schedule::Stage::backwardInput, &schedule::Stage::backwardWeight,
        &schedule::Stage::backward, &schedule::Stage::optimizer, &schedule::Stage::recompute})
    scale(stage.*each);
  if (stage.overlapped)
    scale(*stage.overlapped);
}

void Import::fillProblem(schedule::Problem &problem) {
  problem.ranks = spec.ranks.value;
  problem.slices = spec.slices.value;
  problem.microbatches = spec.microbatches.value / problem.copies * problem.slices;
  problem.backwardGroup = entry ? entry->backwardGroup(problem) : order ? order->backwardGroup : 1;
  problem.workspace.assign(size_t(problem.ranks), spec.workspace.value);
  if (spec.memoryLimits.empty())
    problem.memoryLimit = spec.memoryLimit.value;
  else
    problem.limitRanks(spec.memoryLimits);
  // In a split schedule a backward is whole only where that is asked for, or where an order file has it so.
  const auto isWhole = [](const schedule::Op &op) { return op.letter == schedule::Letter::BW; };
  const bool someWhole =
      order && llvm::any_of(order->words, [&](const schedule::Word &word) { return llvm::any_of(word, isWhole); });
  problem.mixed =
      problem.backward == schedule::BackwardMode::Split && spec.has(Figure::Backward) && (mixes() || someWhole);
  fillFigures(problem);
}

void Import::fillFigures(schedule::Problem &problem) {
  problem.link = {spec.link.latency, spec.link.bandwidth};
  problem.links.clear();
  for (const spec::LinkException &link : spec.links)
    problem.links[{link.from, link.to}] = {link.link.latency, link.link.bandwidth};
  if (spec.measured)
    for (const auto &[ends, link] : spec.measured->links)
      problem.links[ends] = {link.latency, link.bandwidth};
  const spec::TensorParallel &shards = spec.tensorParallel;
  if (spec.globalNorm.value && problem.ranks * shards.shards.value > 1)
    problem.globalNorm =
        schedule::normTimeOf(problem, shards.shards.value, {shards.link.latency, shards.link.bandwidth});
  const size_t ofCopy = problem.rankOf.size() / size_t(problem.copies);
  problem.shared.clear();
  for (const spec::SharedWeight &weight : spec.shared)
    problem.shared.push_back({weight.layers, spec::stagesOf(spec, weight, int32_t(ofCopy)), weight.gradients});
  problem.staticBytes.assign(size_t(problem.ranks), 0);
  problem.stages.clear();
  auto time = [&](int64_t whole) { return timeOfSlice(whole, problem.slices); };
  auto size = [&](int64_t whole) { return sizeOfSlice(whole, problem.slices); };
  for (size_t i = 0; i != problem.rankOf.size(); ++i) {
    const size_t s = i % ofCopy;
    schedule::Stage &stage = problem.stages.emplace_back();
    stage.forward = time(spec[Figure::Forward][s]);
    if (spec.has(Figure::BackwardInput)) {
      stage.backwardInput = time(spec[Figure::BackwardInput][s]);
      stage.backwardWeight = time(spec[Figure::BackwardWeight][s]);
    }
    const bool whole = problem.backward == schedule::BackwardMode::Fused || problem.mixed;
    stage.backward = spec.has(Figure::Backward) && whole ? time(spec[Figure::Backward][s])
                                                         : stage.backwardInput + stage.backwardWeight;
    if (spec.recomputed.has(int64_t(s))) {
      const schedule::Again again = againOf(s);
      schedule::recompute(stage, again.input, again.recompute);
    }
    stage.optimizer = spec[Figure::Optimizer][s];
    if (spec.has(Figure::Overlapped)) // words without pairs too are bounded by what pairs would take
      stage.overlapped = time(spec[Figure::Overlapped][s]);
    if (spec.measured)
      slow(stage, spec.measured->percentOf(problem.rankOf[i]));
    stage.boundary = s + 1 == ofCopy ? 0 : size(spec[Figure::Boundary][s]);
    if (spec.has(Figure::BoundaryGradient) && s + 1 != ofCopy)
      stage.setGradientBack(size(spec[Figure::BoundaryGradient][s]));
    stage.activation = size(spec[Figure::Activation][s]);
    stage.context = size(spec[Figure::WeightContext][s]);
    stage.backwardContext = size(spec[Figure::BackwardContext][s]);
    stage.gradients = spec[Figure::Gradients][s];
    // Over the limit is enough to know: schedule::check refuses it.
    schedule::Bytes &held = problem.staticBytes[size_t(problem.rankOf[i])];
    held = std::min(held + spec[Figure::Static][s], limits::kBytes + 1);
  }
  if (hasShards(spec))
    useFigures(spec, ranksOf(problem), problem);
}

std::optional<schedule::Problem> Import::withFigures(schedule::Problem other) {
  std::vector<spec::Diagnostic> diagnostics;
  if (!spec::setStages(spec, other.stagesOfCopy(), diagnostics))
    return report(diagnostics, context), std::nullopt;
  fillFigures(other);
  return other;
}

LogicalResult Import::fillAndCheck() {
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
  if (room.makesPrograms || objective)
    if (const std::string tooLarge = tooLargeHere({.stages = int64_t(problem.rankOf.size()),
                                                   .microbatches = problem.microbatches,
                                                   .isSplit = problem.backward == schedule::BackwardMode::Split,
                                                   .anyRings = spec.rings.value == spec::Rings::Any});
        !tooLarge.empty())
      return error(spec.microbatches.mark) << tooLarge, failure();
  if (hasShards(spec) && problem.memoryLimit != 0 && !objective && inFlight.empty()) {
    inFlight = heldAtOnce(wordsHere());
    fillFigures(problem);
  }
  return success();
}

std::vector<int64_t> Import::heldAtOnce(const schedule::Words &words) const {
  const auto hasContexts = [](const schedule::Stage &stage) { return stage.context + stage.backwardContext > 0; };
  const bool untilW = llvm::any_of(problem.stages, hasContexts);
  std::vector<int64_t> now(problem.stages.size()), most(problem.stages.size());
  for (const schedule::Word &word : words)
    for (const schedule::Op &op : word) {
      int64_t &held = now[size_t(op.stage)];
      if (op.letter == schedule::Letter::F)
        most[size_t(op.stage)] = std::max(most[size_t(op.stage)], ++held);
      else
        held -= op.letter == schedule::Letter::BW || (op.letter == schedule::Letter::W) == untilW;
    }
  return most;
}

LogicalResult Import::checkParameters() {
  if (!entry)
    return success();
  for (const auto &[name, value] : parameters)
    if (std::string wrong = schedule::check(*entry, problem, {{name, value}}); !wrong.empty())
      return error(spec.schedule.parameters.at(name).mark) << wrong, failure();
  return success();
}

LogicalResult Import::checkBlock() {
  std::string wrong = schedule::check(problem);
  if (wrong.empty())
    wrong = schedule::check(problem, *block);
  return wrong.empty() ? success() : LogicalResult(error(spec.schedule.mark) << wrong);
}

LogicalResult Import::checkPairs() {
  if (!spec.has(Figure::Overlapped))
    return success();
  auto check = [&](int32_t forward, int32_t backward) -> LogicalResult {
    const schedule::Stage &stage = problem.stages[size_t(forward)];
    const schedule::Time other = schedule::ownCost(problem.stages[size_t(backward)], schedule::Letter::BW);
    if (!stage.overlapped || schedule::mayOverlap(problem, forward, backward))
      return success();
    const int32_t ofCopy = problem.stagesOfCopy();
    return error(spec[Figure::Overlapped].markOf(size_t(forward % ofCopy)))
               << "costs.overlapped: the forward of stage " << forward % ofCopy << " (" << plan::timeText(stage.forward)
               << ") and the backward of stage " << backward % ofCopy << " (" << plan::timeText(other)
               << ") take between " << plan::timeText(std::max(stage.forward, other)) << ", the longer of the two, and "
               << plan::timeText(stage.forward + other) << ", one after the other; found "
               << plan::timeText(*stage.overlapped),
           failure();
  };
  if (order) {
    for (const schedule::Word &word : order->words)
      for (size_t i = 0; i != word.size(); ++i)
        if (word[i].overlapped && failed(check(word[i].stage, word[i + 1].stage)))
          return failure();
    return success();
  }
  if (!objective && !(entry && entry->overlaps))
    return success();
  for (const std::vector<int32_t> &mine : problem.stagesByRank())
    for (const int32_t forward : mine) {
      // A search pairs what may be; those of the catalogue pair what two stages do.
      const bool pairsNone =
          objective && llvm::none_of(mine, [&](int32_t each) { return schedule::mayOverlap(problem, forward, each); });
      for (const int32_t backward : mine)
        if ((objective ? pairsNone : forward != backward) && failed(check(forward, backward)))
          return failure();
    }
  return success();
}

LogicalResult Import::checkMixed() {
  const auto refuse = [&](const spec::Mark &mark, const std::string &what) -> LogicalResult {
    return error(mark) << "backward: mixed " << what, failure();
  };
  if (!spec.has(Figure::Backward) || !spec.has(Figure::BackwardInput))
    return refuse(spec.backwardMode->mark,
                  "needs the cost of a whole backward beside those of its two parts, found no " +
                      std::string(spec.layers ? "layers[]." : "costs.") +
                      (spec.has(Figure::Backward) ? "backward_input and backward_weight" : "backward"));
  for (size_t s = 0; s != size_t(spec.stages); ++s)
    if (const auto whole = spec[Figure::Backward][s],
        parts = spec[Figure::BackwardInput][s] + spec[Figure::BackwardWeight][s];
        whole > parts)
      return refuse(spec[Figure::Backward].markOf(s), "expected a whole backward of stage " + std::to_string(s) +
                                                          " to take at most the " + plan::timeText(parts) +
                                                          " of its two parts, found " + plan::timeText(whole) +
                                                          ": it would never pay");
  if (spec.has(Figure::Overlapped))
    return refuse(spec[Figure::Overlapped].mark,
                  "has no overlapped pairs, found costs.overlapped: fused and split have them");
  if (spec.weights.value == spec::Weights::Fill)
    return refuse(spec.weights.mark, "runs W with its B, weights: fill runs it later: expected one of the two");
  if (order && !order->rows.empty())
    return refuse(spec.backwardMode->mark,
                  "moves W to their B, but the order file places transfers among them: leave its "
                  "transfers out");
  return success();
}

schedule::Words Import::wordsHere() {
  if (mixes())
    return mixedWords();
  return order   ? order->words
         : entry ? schedule::wordsOf(*entry, problem, parameters)
                 : schedule::refill(problem, *block);
}

schedule::Words Import::mixedWords() {
  const schedule::Objective by = objective.value_or(schedule::Objective::Span);
  if (!entry)
    return schedule::fuseBackwards(problem, order ? order->words : schedule::refill(problem, *block), by);
  std::optional<std::tuple<__int128, schedule::Time, schedule::Time>> least;
  schedule::Words best;
  for (const bool fused : {false, true}) {
    if (fused ? !entry->allowsFused : !entry->allowsSplit)
      continue;
    schedule::Problem own = problem;
    own.backward = fused ? schedule::BackwardMode::Fused : schedule::BackwardMode::Split;
    if (!schedule::check(*entry, own, parameters).empty())
      continue;
    schedule::Words words = schedule::wordsOf(*entry, own, parameters);
    if (!fused)
      words = schedule::fuseBackwards(problem, words, by);
    const schedule::Evaluation found = schedule::evaluate(problem, words);
    const std::tuple time(problem.memoryLimit == 0 ? 0 : schedule::excessOf(problem, words), found.span,
                          found.makespan);
    if (least && time >= *least)
      continue;
    least = time;
    best = std::move(words);
  }
  return best;
}

LogicalResult Import::checkLength() {
  constexpr int64_t kMost = int64_t(1) << 24;
  if (schedule::isNeverTooLong(problem) || int64_t(problem.stages.size()) * problem.microbatches > kMost ||
      (block && !schedule::check(problem, *block).empty()))
    return success();
  const schedule::Words words = wordsHere();
  if (!schedule::evaluate(problem, words, {.withSpan = false}).tooLong)
    return success();
  return error(spec.costs) << "a step takes longer than " << limits::kTime
                           << " ps (about 11 days), the longest step: fewer microbatches, shorter costs or faster "
                              "links",
         failure();
}

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

bool choosesFromCatalogue(const spec::Spec &spec) {
  return spec.slices.value > 1 || (spec.placement && spec.placement->kind == spec::PlacementKind::Bidirectional);
}

Imported fromSpec(const spec::Spec &spec, MLIRContext &context, SearchRoom room) {
  context.loadDialect<PipeDialect>();
  const std::optional<spec::Spec> chosen = withEntryIfChosen(spec, context, room);
  return chosen ? Import(*chosen, context, room).run() : Imported();
}

std::optional<spec::Spec> withEntryIfChosen(const spec::Spec &spec, MLIRContext &context, SearchRoom room) {
  if (spec.schedule.name != "auto" || !choosesFromCatalogue(spec))
    return spec;
  return Import(spec, context, room).withEntry();
}

std::vector<CatalogueTime> catalogueTimes(const spec::Spec &spec, MLIRContext &context, const std::stop_token &stop) {
  return Import(spec, context, {.buffers = 1, .stop = stop}).catalogueTimes();
}

std::string fittingSchedules(const spec::Spec &spec, int32_t stages, MLIRContext &context) {
  return llvm::join(Import(spec, context, {1}).fitting(stages), ", ");
}

schedule::Bytes leastLimitOf(const spec::Spec &spec, MLIRContext &context) {
  if (spec.layers && spec.layers->choosesCut && !spec.layers->cut)
    return leastLimitOfCuts(spec, context);
  return Import(spec, context, {1}).leastLimit();
}

std::optional<schedule::Problem> withFigures(const spec::Spec &spec, schedule::Problem problem, MLIRContext &context) {
  return Import(spec, context, {1}).withFigures(std::move(problem));
}

SearchSpace searchSpaceOf(const spec::Spec &spec, MLIRContext &context) { return Import(spec, context, {1}).space(); }

} // namespace pipec
