// What passes need from the ops of a module: its pipeline as the scheduler's problem, and the names of ops in messages.
#pragma once

#include "compiler/schedule/model/Problem.h"
#include "dialects/pipe/Pipe.h"
#include "runtime/plan/Plan.h"

#include "mlir/IR/BuiltinOps.h"

#include <optional>
#include <vector>

namespace pipec {

/// The module's pipeline; null after an error if there is none or more than one.
pipe::PipelineOp findPipeline(mlir::ModuleOp module);

/// The scheduler's problem: the pipeline's attributes, with costs and sizes from the ops and types of its block.
schedule::Problem problemOf(pipe::PipelineOp pipeline);

/// The queue key of a transfer: transfers of a rank with equal keys share a queue. `sends`: whether the rank sends to
/// the peer or receives from it.
std::pair<int32_t, int> queueKey(pipe::Communicator communicator, int32_t peer, bool sends);

/// The place where the spec states `key`, if `location` has it; else `location`.
mlir::Location placeOf(mlir::StringRef key, mlir::Location location);

/// Whether an op is F, B, W or BW.
bool isPass(mlir::Operation *op);
/// The stage of an instruction; -1: it has none.
int32_t stageOf(mlir::Operation *op);
/// The microbatch of a pass or a transfer; 0 for all other ops.
int32_t microbatchOf(mlir::Operation *op);
/// "F stage 3 microbatch 7"
std::string nameOf(mlir::Operation *op);
std::string nameOf(const plan::Operation &operation, std::optional<int32_t> microbatch);

} // namespace pipec
