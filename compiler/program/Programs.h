// The ops of a module as passes ask for them: the pipeline, the programs by rank, what an op is called in a message.
#pragma once

#include "compiler/schedule/model/Problem.h"
#include "dialects/pipe/Pipe.h"
#include "runtime/plan/Plan.h"

#include "mlir/IR/BuiltinOps.h"

#include <optional>
#include <vector>

namespace pipec {

/// The module's pipeline; an error at the module if there is none or more than one.
pipe::PipelineOp findPipeline(mlir::ModuleOp module);

/// What the pipeline says, as the scheduler takes it: costs and sizes from the block's ops and types.
schedule::Problem problemOf(pipe::PipelineOp pipeline);

/// What shares a transfer queue of a rank has equal keys.
std::pair<int32_t, int> queueKey(pipe::Communicator communicator, int32_t peer, bool sends);

/// Where the spec states `key`, if the location of what was made from it says so; else the location.
mlir::Location placeOf(mlir::StringRef key, mlir::Location location);

/// F, B, W, BW; not transfers or optimizer steps.
bool isPass(mlir::Operation *op);
int32_t stageOf(mlir::Operation *op);
/// Of a pass or a transfer.
int32_t microbatchOf(mlir::Operation *op);
/// "F stage 3 microbatch 7"
std::string nameOf(mlir::Operation *op);
std::string nameOf(const plan::Operation &operation, std::optional<int32_t> microbatch);

} // namespace pipec
