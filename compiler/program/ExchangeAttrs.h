// Between what a pipeline says of its replicas and their exchange, and the scheduler's structs.
#pragma once

#include "compiler/schedule/exchange/Exchange.h"
#include "dialects/pipe/Pipe.h"

#include <optional>

namespace pipec {

/// What the pipeline says of its replicas; nothing where it has none.
std::optional<schedule::Replicas> replicasOf(pipe::PipelineOp pipeline);
pipe::ReplicasAttr attributeOf(const schedule::Replicas &replicas, mlir::MLIRContext &context);

/// The pipeline's exchange; nothing where it has none.
std::optional<schedule::Exchange> exchangeOf(pipe::PipelineOp pipeline);
pipe::ExchangeAttr attributeOf(const schedule::Exchange &exchange, mlir::MLIRContext &context);

} // namespace pipec
