// Converts the pipeline op's replicas and exchange to the scheduler's structs and back.
#pragma once

#include "compiler/schedule/exchange/Exchange.h"
#include "dialects/pipe/Pipe.h"

#include <optional>

namespace pipec {

/// The pipeline's replicas; none if it has none.
std::optional<schedule::Replicas> replicasOf(pipe::PipelineOp pipeline);
pipe::ReplicasAttr attributeOf(const schedule::Replicas &replicas, mlir::MLIRContext &context);

/// The pipeline's exchange; none if it has none.
std::optional<schedule::Exchange> exchangeOf(pipe::PipelineOp pipeline);
pipe::ExchangeAttr attributeOf(const schedule::Exchange &exchange, mlir::MLIRContext &context);

} // namespace pipec
