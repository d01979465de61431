// Where the passes of a spec come from: a schedule of the catalogue, its own block, an order file.
#include "compiler/driver/Files.h"
#include "compiler/driver/FromSpecImport.h"
#include "compiler/spec/Reader.h"
#include "compiler/torch/OrderCsv.h"
#include "runtime/plan/Limits.h"
#include "runtime/plan/Load.h"

#include "llvm/ADT/StringExtras.h"

#include <filesystem>

using namespace mlir;

namespace pipec {

using plan::Figure;

LogicalResult Import::catalogueEntry() {
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
  if (mixes()) // which of the two it is, each backward says
    return setBackward(schedule::BackwardMode::Split);
  if (spec.backwardMode)
    fused = spec.backwardMode->value == spec::Backward::Fused;
  if (fused ? !entry->allowsFused : !entry->allowsSplit)
    return error(spec.backwardMode->mark)
               << "schedule '" << entry->name << "' does not have a " << (fused ? "fused" : "split") << " backward",
           failure();
  return setBackward(fused ? schedule::BackwardMode::Fused : schedule::BackwardMode::Split);
}

LogicalResult Import::readNumbers(const std::string &name, const spec::Parameter &parameter) {
  if (std::string unknown = schedule::checkParameter(*entry, name); !unknown.empty())
    return error(parameter.mark) << unknown, failure();
  std::vector<int64_t> values;
  for (size_t i = 0; i != parameter.values.size(); ++i)
    if (StringRef(parameter.values[i]).getAsInteger(10, values.emplace_back()))
      return error(parameter.marks[i]) << "expected an integer as '" << name << "' of schedule '" << entry->name
                                       << "', found '" << parameter.values[i] << "'",
             failure();
  parameters.emplace(name, parameter.list ? schedule::Given(std::move(values)) : schedule::Given(values.front()));
  return success();
}

void Import::unknownSchedule() {
  constexpr std::string_view kOthers[] = {"auto", "block", "burst", "order"};
  auto diagnostic = error(spec.schedule.mark) << "unknown schedule '" << spec.schedule.name << "'";
  if (auto near = schedule::nearest(spec.schedule.name, kOthers); !near.empty())
    diagnostic << ", did you mean '" << near << "'?";
  std::vector<std::string_view> known;
  for (const schedule::Entry &each : schedule::catalogue())
    known.push_back(each.name);
  known.insert(known.end(), std::begin(kOthers), std::end(kOthers));
  diagnostic.attachNote() << "known schedules: " << llvm::join(known, ", ");
}

LogicalResult Import::customBlock() {
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
      return error(parameter.mark) << "schedule 'block' has no parameter '" << name
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
  if (spec.placement && spec.placement->kind == spec::PlacementKind::Bidirectional)
    return error(spec.placement->mark) << "a block has each stage on one rank, found a bidirectional placement; {name: "
                                          "order} takes an order of two copies from a file",
           failure();
  if (failed(agreesWithPlacement("a block has each stage on one rank")))
    return failure();
  if (spec.backwardMode && (spec.backwardMode->value != spec::Backward::Fused) != split)
    return error(spec.backwardMode->mark) << "the block has " << (split ? "slots" : "no slots")
                                          << " for backward_weight, so its backward is " << (split ? "split" : "fused"),
           failure();
  return setBackward(split ? schedule::BackwardMode::Split : schedule::BackwardMode::Fused);
}

LogicalResult Import::readSlots(const std::string &name, const spec::Parameter &parameter,
                                std::vector<int64_t> &slots) {
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

LogicalResult Import::orderFile() {
  const spec::Parameter *file = nullptr;
  for (const auto &[name, parameter] : spec.schedule.parameters) {
    if (name != "file")
      return error(parameter.mark) << "schedule 'order' has no parameter '" << name << "', expected file", failure();
    file = &parameter;
  }
  if (!file || file->list)
    return error(file ? file->mark : spec.schedule.mark) << "schedule 'order' needs one file", failure();
  const std::string path = spec::orderFileOf(spec);
  std::error_code unknown;
  if (!isKept(path) && std::filesystem::is_fifo(path, unknown)) // nobody may ever write into it
    return error(file->mark) << path << ": is a FIFO; expected a file", failure();
  std::vector<uint8_t> bytes;
  if (Status status = readBytes(path, limits::kOrderBytes, bytes); !status.ok())
    return error(file->mark) << status.message, failure();
  order.emplace();
  problem.copies = spec.placement && spec.placement->kind == spec::PlacementKind::Bidirectional ? 2 : 1;
  problem.slices = spec.slices.value;
  schedule::OrderError wrong;
  std::string_view text(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  if (!schedule::readOrder(text, *order, wrong, {problem.copies, problem.slices}))
    return emitError(FileLineColLoc::get(&context, path, unsigned(wrong.line), unsigned(wrong.column)))
               << wrong.message,
           failure();
  // Where nobody says what a pair takes, its two run one after the other, as PyTorch's do unless told how to overlap.
  for (schedule::Word &word : order->words)
    for (schedule::Op &op : word)
      op.overlapped &= spec.has(Figure::Overlapped);
  return agreesWithOrder(*file);
}

LogicalResult Import::agreesWithOrder(const spec::Parameter &file) {
  if (int32_t(order->words.size()) != spec.ranks.value)
    return error(spec.ranks.mark) << "the order file has " << order->words.size()
                                  << " rows, one a rank, found ranks: " << spec.ranks.value,
           failure();
  const std::string slices = problem.slices > 1 ? " of " + std::to_string(problem.slices) + " slices" : "",
                    ofCopy = problem.copies > 1 ? " of each of two copies" : "";
  if (int64_t(order->microbatches) * problem.copies != int64_t(spec.microbatches.value) * problem.slices)
    return error(spec.microbatches.mark) << "the order file has " << order->microbatches
                                         << (slices.empty() ? " microbatches" : " slices of microbatches") << ofCopy
                                         << ", found microbatches: " << spec.microbatches.value << slices,
           failure();
  const auto stages = int32_t(order->rankOf.size());
  if (stages % problem.copies != 0 || (spec.stagesGiven && stages / problem.copies != spec.stages))
    return error(spec.stagesPerRank ? spec.stagesPerRank->mark : spec.placement->mark)
               << "the order file has " << stages << " stages" << (ofCopy.empty() ? "" : ", those of both copies")
               << ", found " << spec.stages << ofCopy,
           failure();
  problem.rankOf = order->rankOf;
  if (failed(agreesWithPlacement("the order file places stages another way")))
    return failure();
  problem.ranks = spec.ranks.value;
  problem.microbatches = order->microbatches;
  problem.backwardGroup = order->backwardGroup;
  bool split = order->backward == schedule::BackwardMode::Split;
  if (spec.backwardMode && (spec.backwardMode->value != spec::Backward::Fused) != split)
    return error(spec.backwardMode->mark) << "the order file has a " << (split ? "split" : "fused") << " backward",
           failure();
  problem.stages.resize(problem.rankOf.size());
  problem.backward = order->backward;
  if (std::string wrong = schedule::verify(problem, order->words); !wrong.empty())
    return error(file.mark) << wrong, failure();
  problem.stages.clear();
  return setBackward(order->backward);
}

std::vector<int32_t> Import::placedAsSpecSays(size_t stages) const {
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

LogicalResult Import::agreesWithPlacement(const std::string &fixed) {
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

LogicalResult Import::setBackward(schedule::BackwardMode mode) {
  problem.backward = mode;
  if (mode == schedule::BackwardMode::Split && !spec.has(Figure::BackwardInput) && !mixes()) // checkMixed() says more
    return error(spec[Figure::Backward].mark)
               << "a split backward needs costs.backward_input and costs.backward_weight, found "
                  "costs.backward",
           failure();
  return success();
}

} // namespace pipec
