// The collectives that programs have with their replicas, as a bundling, and what others in its place would take. For
// the passes that decouple and fuse collectives.
#pragma once

#include "compiler/program/BuildPrograms.h"
#include "compiler/program/ProgramSet.h"
#include "compiler/schedule/exchange/ChooseExchange.h"
#include "dialects/pipe/Pipe.h"

#include <functional>

namespace pipec {

/// An all-reduce for each layer, when its gradients are complete, in the order in which the programs' passes complete
/// them. Layers are updated each by itself.
schedule::Exchange oneByLayer(const ProgramSet &set, const schedule::Replicas &replicas);

/// Makes another bundling of one whose step takes `now`; the same where nothing is gained.
using Rebundle = schedule::Bundling (*)(const schedule::ExchangeInput &input, const schedule::Bundling &from,
                                        schedule::Time now, const schedule::JudgeExchange &judge);

/// Makes the programs anew if `rebundle` finds another bundling of their collectives; its judge is the span of the
/// programs that it gives, whose transfers have all the buffers that they want. Nothing happens where the pipeline has
/// no replicas, or says their exchange.
mlir::LogicalResult changeExchange(ProgramSet &set, pipe::PipelineOp pipeline, Rebundle rebundle);

} // namespace pipec
