#include "compiler/program/Shards.h"

#include <algorithm>

using namespace mlir;

namespace pipec {

using namespace pipe;

namespace {

std::vector<int64_t> listOf(DenseI64ArrayAttr list, size_t count) {
  return list ? list.asArrayRef().vec() : std::vector<int64_t>(count);
}

/// None where all are 0.
DenseI64ArrayAttr listOf(const std::vector<int64_t> &list, MLIRContext &context) {
  return llvm::all_of(list, [](int64_t each) { return each == 0; }) ? DenseI64ArrayAttr()
                                                                    : DenseI64ArrayAttr::get(&context, list);
}

/// Ranges as they stand in an attribute: shard, first, count.
void addRanges(const std::vector<plan::Range> &ranges, int32_t shard, SmallVector<int64_t> &list) {
  for (const plan::Range &range : ranges)
    list.append({shard, range.first, range.count});
}

std::vector<plan::Range> rangesOf(DenseI64ArrayAttr list, int32_t shard) {
  std::vector<plan::Range> ranges;
  const ArrayRef<int64_t> numbers = list.asArrayRef();
  for (size_t i = 0; i + 2 < numbers.size(); i += 3)
    if (numbers[i] == shard)
      ranges.push_back({numbers[i + 1], numbers[i + 2]});
  return ranges;
}

ShardedStage stageOf(ShardedStageAttr given, int32_t stage, size_t count) {
  ShardedStage made;
  made.activation = listOf(given.getActivation(), count);
  made.context = listOf(given.getWeightContext(), count);
  made.backwardContext = listOf(given.getBackwardContext(), count);
  for (auto pass : given.getPasses().getAsRange<ShardedPassAttr>())
    made.passes.push_back({static_cast<plan::Kind>(pass.getKind()), pass.getCost(), listOf(pass.getBefore(), count),
                           listOf(pass.getBetween(), count), listOf(pass.getAfter(), count), pass.getMeets()});
  for (auto portion : given.getPortions().getAsRange<PortionAttr>())
    for (int32_t shard = 0; shard != int32_t(count); ++shard)
      made.portions.push_back({stage, shard, portion.getFirst(), portion.getEnd() - portion.getFirst(),
                               portion.getSplit().str(), portion.getUnits(), rangesOf(portion.getOwned(), shard),
                               rangesOf(portion.getWorked(), shard), portion.getKept().asArrayRef()[size_t(shard)]});
  return made;
}

/// `count` portions, one a shard, of one split.
PortionAttr attributeOf(const plan::Portion *portions, int32_t count, MLIRContext &context) {
  SmallVector<int64_t> owned, worked, kept;
  for (int32_t shard = 0; shard != count; ++shard) {
    addRanges(portions[shard].owned, shard, owned);
    addRanges(portions[shard].worked, shard, worked);
    kept.push_back(portions[shard].kept);
  }
  const auto list = [&](ArrayRef<int64_t> numbers) { return DenseI64ArrayAttr::get(&context, numbers); };
  return PortionAttr::get(&context, StringAttr::get(&context, portions->split), portions->firstLayer,
                          portions->firstLayer + portions->layers, portions->units, list(owned), list(worked),
                          list(kept));
}

ShardedStageAttr attributeOf(const ShardedStage &stage, int32_t count, MLIRContext &context) {
  SmallVector<Attribute> passes, portions;
  for (const ShardedPass &pass : stage.passes)
    passes.push_back(ShardedPassAttr::get(&context, static_cast<ShardedKind>(pass.kind), pass.cost,
                                          listOf(pass.before, context), listOf(pass.between, context),
                                          listOf(pass.after, context), pass.meets));
  for (size_t i = 0; i < stage.portions.size(); i += size_t(count))
    portions.push_back(attributeOf(&stage.portions[i], count, context));
  return ShardedStageAttr::get(&context, listOf(stage.activation, context), listOf(stage.context, context),
                               listOf(stage.backwardContext, context), ArrayAttr::get(&context, passes),
                               ArrayAttr::get(&context, portions));
}

const ShardedPass *passOf(const Shards &shards, const plan::Operation &operation) {
  if (!plan::isBusy(operation.kind) || size_t(operation.stage) >= shards.stages.size())
    return nullptr;
  for (const ShardedPass &pass : shards.stages[size_t(operation.stage)].passes)
    if (pass.kind == operation.kind)
      return &pass;
  return nullptr;
}

/// What an operation has of its stage's memory on a shard, in place of what the operation says.
plan::OwnCost memoryOf(const ShardedStage &stage, const plan::Operation &operation, size_t shard) {
  plan::OwnCost own;
  const unsigned uses = plan::rowOf(operation.kind).holds | plan::rowOf(operation.kind).frees;
  if ((uses & plan::kActivation) != 0 && operation.activation != 0)
    own.activation = stage.activation[shard];
  if ((uses & plan::kContext) != 0 && operation.context != 0)
    own.context += stage.context[shard];
  // A B holds what it adds, a W frees both.
  if ((uses & plan::kBackwardContext) != 0 && operation.context != 0)
    own.context += stage.backwardContext[shard];
  return own;
}

} // namespace

std::optional<Shards> shardsOf(PipelineOp pipeline) {
  if (!pipeline.getShards())
    return std::nullopt;
  const ShardsAttr given = *pipeline.getShards();
  Shards made;
  made.count = given.getCount();
  made.factors = given.getFactors().asArrayRef().vec();
  made.staticBytes = listOf(given.getStaticBytes(), made.factors.size());
  made.workspace = listOf(given.getWorkspace(), made.factors.size());
  for (auto stage : given.getStages().getAsRange<ShardedStageAttr>())
    made.stages.push_back(stageOf(stage, int32_t(made.stages.size()), size_t(made.count)));
  made.balance = given.getBalance().str();
  return made;
}

ShardsAttr attributeOf(const Shards &shards, MLIRContext &context) {
  SmallVector<Attribute> stages;
  for (const ShardedStage &stage : shards.stages)
    stages.push_back(attributeOf(stage, shards.count, context));
  return ShardsAttr::get(&context, shards.count, DenseI64ArrayAttr::get(&context, shards.factors),
                         listOf(shards.staticBytes, context), listOf(shards.workspace, context),
                         ArrayAttr::get(&context, stages), StringAttr::get(&context, shards.balance));
}

void apply(const Shards &shards, plan::Variant &variant) {
  const auto count = size_t(shards.count);
  variant.own.resize(variant.programs.size() * count);
  int32_t groups = 0; // of ranks that have sums, in their order
  for (size_t rank = 0; rank != variant.programs.size(); ++rank) {
    plan::Program &program = variant.programs[rank];
    for (size_t shard = 0; shard != count; ++shard) {
      plan::Own &own = variant.own[rank * count + shard];
      own.factor = shards.factors[rank * count + shard];
      own.staticBytes = shards.staticBytes[rank * count + shard];
      own.workspace = shards.workspace[rank * count + shard];
      own.operations.resize(program.operations.size());
    }
    bool meet = false;
    for (size_t o = 0; o != program.operations.size(); ++o) {
      plan::Operation &operation = program.operations[o];
      const ShardedPass *pass = passOf(shards, operation);
      for (size_t shard = 0; plan::isBusy(operation.kind) && shard != count; ++shard) {
        plan::OwnCost &own = variant.own[rank * count + shard].operations[o];
        own = memoryOf(shards.stages[size_t(operation.stage)], operation, shard);
        own.before = pass ? pass->before[shard] : operation.cost;
        own.between = pass ? pass->between[shard] : 0;
        own.after = pass ? pass->after[shard] : 0;
      }
      if (!plan::isBusy(operation.kind))
        continue;
      operation.cost = pass ? pass->cost : 0;
      operation.group = pass && pass->meets ? groups : -1;
      meet |= operation.group != -1;
    }
    groups += meet;
  }
  for (const ShardedStage &stage : shards.stages)
    variant.portions.insert(variant.portions.end(), stage.portions.begin(), stage.portions.end());
  variant.balance = shards.balance;
}

} // namespace pipec
