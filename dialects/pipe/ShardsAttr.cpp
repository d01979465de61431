// The rules for the shards of a pipeline's ranks, one function per attribute.
#include "dialects/pipe/Pipe.h"

#include "runtime/plan/Limits.h"

using namespace mlir;
using namespace pipec::pipe;

namespace limits = pipec::limits;
using EmitError = llvm::function_ref<InFlightDiagnostic()>;

static LogicalResult within(EmitError emitError, StringRef what, int64_t most, DenseI64ArrayAttr list) {
  if (list)
    for (const int64_t each : list.asArrayRef())
      if (each < 0 || each > most)
        return emitError() << "expected " << what << " between 0 and " << most << ", found " << each;
  return success();
}

/// A list is empty, or has one number for each of `count`.
static LogicalResult byEach(EmitError emitError, StringRef what, int64_t count, DenseI64ArrayAttr list) {
  if (list && list.size() != count)
    return emitError() << "expected " << what << " of " << count << ", found " << list.size();
  return success();
}

LogicalResult ShardedPassAttr::verify(EmitError emitError, ShardedKind, int64_t cost, DenseI64ArrayAttr before,
                                      DenseI64ArrayAttr between, DenseI64ArrayAttr after, bool meets) {
  if (cost < 0 || cost > limits::kTime || (!meets && cost != 0))
    return emitError() << "expected a cost between 0 and " << (meets ? limits::kTime : 0) << " ps, found " << cost;
  for (const DenseI64ArrayAttr list : {before, between, after})
    if (failed(within(emitError, "picoseconds of a shard", limits::kTime, list)))
      return failure();
  return success();
}

/// Ranges of units, each of three numbers, ascending and disjoint for each shard.
static LogicalResult verifyRanges(EmitError emitError, int64_t units, int64_t shards, ArrayRef<int64_t> ranges) {
  if (ranges.size() % 3 != 0)
    return emitError() << "expected ranges of three numbers each, found " << ranges.size() << " numbers";
  for (size_t i = 0; i != ranges.size(); i += 3)
    if (ranges[i] < 0 || ranges[i] >= shards || ranges[i + 1] < 0 || ranges[i + 2] < 1 || ranges[i + 1] >= units ||
        ranges[i + 2] > units - ranges[i + 1])
      return emitError() << "expected one of " << shards << " shards, and units within " << units << ", found shard "
                         << ranges[i] << ", " << ranges[i + 2] << " units from " << ranges[i + 1] << " on";
  return success();
}

LogicalResult PortionAttr::verify(EmitError emitError, StringAttr, int32_t first, int32_t end, int64_t units,
                                  DenseI64ArrayAttr owned, DenseI64ArrayAttr worked, DenseI64ArrayAttr kept) {
  if (units < 1 || units > limits::kBytes)
    return emitError() << "expected a unit or more of a split, found " << units;
  if (failed(LayersAttr::verify(emitError, first, end)) ||
      failed(verifyRanges(emitError, units, kept.size(), owned.asArrayRef())) ||
      failed(verifyRanges(emitError, units, kept.size(), worked.asArrayRef())))
    return failure();
  return within(emitError, "units kept", units, kept);
}

LogicalResult ShardedStageAttr::verify(EmitError emitError, DenseI64ArrayAttr activation, DenseI64ArrayAttr context,
                                       DenseI64ArrayAttr backwardContext, ArrayAttr passes, ArrayAttr portions) {
  for (const DenseI64ArrayAttr list : {activation, context, backwardContext})
    if (failed(within(emitError, "bytes of a shard", limits::kBytes, list)))
      return failure();
  if (!passes || !llvm::all_of(passes, llvm::IsaPred<ShardedPassAttr>))
    return emitError() << "expected a list of '#pipe.sharded_pass' as the passes of a stage";
  if (!portions || !llvm::all_of(portions, llvm::IsaPred<PortionAttr>))
    return emitError() << "expected a list of '#pipe.portion' as the portions of a stage";
  return success();
}

LogicalResult ShardsAttr::verify(EmitError emitError, int32_t count, DenseI64ArrayAttr factors,
                                 DenseI64ArrayAttr staticBytes, DenseI64ArrayAttr workspace, ArrayAttr stages,
                                 StringAttr balance) {
  if (count < 2 || count > limits::kProcesses)
    return emitError() << "expected between 2 and " << limits::kProcesses << " shards, found " << count;
  if (!factors || !balance || factors.size() > limits::kProcesses ||
      llvm::any_of(factors.asArrayRef(), [](int64_t factor) { return factor < 1; }))
    return emitError() << "expected at most " << limits::kProcesses << " factors, each of 1 or more, and a balance";
  for (const DenseI64ArrayAttr list : {staticBytes, workspace})
    if (failed(within(emitError, "bytes of a process", limits::kBytes, list)) ||
        failed(byEach(emitError, "bytes of each process", factors.size(), list)))
      return failure();
  if (!stages || !llvm::all_of(stages, llvm::IsaPred<ShardedStageAttr>))
    return emitError() << "expected a list of '#pipe.sharded_stage', found " << Attribute(stages);
  for (auto stage : stages.getAsRange<ShardedStageAttr>()) {
    for (const DenseI64ArrayAttr list : {stage.getActivation(), stage.getWeightContext(), stage.getBackwardContext()})
      if (failed(byEach(emitError, "bytes of each shard", count, list)))
        return failure();
    for (auto pass : stage.getPasses().getAsRange<ShardedPassAttr>())
      for (const DenseI64ArrayAttr list : {pass.getBefore(), pass.getBetween(), pass.getAfter()})
        if (failed(byEach(emitError, "times of each shard", count, list)))
          return failure();
    for (auto portion : stage.getPortions().getAsRange<PortionAttr>())
      if (failed(byEach(emitError, "units of each shard", count, portion.getKept())))
        return failure();
  }
  return success();
}
