// The collectives of programs with their replicas as a bundling, and the step time of other bundlings. For the passes
// that decouple and fuse collectives.
#pragma once

#include "compiler/program/BuildPrograms.h"
#include "compiler/program/ProgramSet.h"
#include "compiler/schedule/exchange/ChooseExchange.h"
#include "dialects/pipe/Pipe.h"

#include <functional>

namespace pipec {

/// An exchange with an all-reduce for each layer, when its gradients are complete, in the order in which the passes
/// complete the layers. Each layer is updated by itself.
schedule::Exchange oneByLayer(const ProgramSet &set, const schedule::Replicas &replicas);

/// Makes a better bundling from one with a step time of `now`; the same bundling if nothing is gained.
using Rebundle = schedule::Bundling (*)(const schedule::ExchangeInput &input, const schedule::Bundling &from,
                                        schedule::Time now, const schedule::JudgeExchange &judge);

/// Rebuilds the programs if `rebundle` finds a better bundling of their collectives. A bundling is judged by the span
/// of the resulting programs, with unlimited transfer buffers. Does nothing if the pipeline has no replicas, or if the
/// pipeline's own attribute gives the exchange of its replicas.
mlir::LogicalResult changeExchange(ProgramSet &set, pipe::PipelineOp pipeline, Rebundle rebundle);

} // namespace pipec
