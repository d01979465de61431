// What a stage library is told of its stages when it is created, gathered from the plan.
#pragma once

#include "runtime/plan/Plan.h"
#include "runtime/stage/pipec_stage.h"

#include <vector>

namespace pipec::runtime {

/// Of each stage of `rank`, over all variants; where it has shards, as one of them has them.
std::vector<PipecStageFacts> factsOf(const plan::Plan &plan, int32_t rank, int32_t shard = 0);

/// The most microbatches of any variant.
int64_t microbatchesOf(const plan::Plan &plan);

} // namespace pipec::runtime
