// Shards of ranks (tensor parallelism): what is each process's own beside the program that all shards of its rank run.
// Times are picoseconds, sizes bytes, factors millionths.
#pragma once

#include "dialects/pipe/Pipe.h"
#include "runtime/plan/Plan.h"

#include <optional>
#include <string>
#include <vector>

namespace pipec {

/// What an op of a stage takes on each shard: as plan::OwnCost and Operation::cost say.
struct ShardedPass {
  plan::Kind kind = plan::Kind::Forward;
  plan::Time cost = 0;
  std::vector<plan::Time> before, between, after; // by shard
  bool meets = false;
};

struct ShardedStage {
  std::vector<plan::Bytes> activation, context, backwardContext; // by shard, of a microbatch
  std::vector<ShardedPass> passes;
  std::vector<plan::Portion> portions; // by layers, split and shard
};

struct Shards {
  int32_t count = 2;                               // of each rank
  std::vector<int64_t> factors;                    // by process: rank * count + shard
  std::vector<plan::Bytes> staticBytes, workspace; // likewise
  std::vector<ShardedStage> stages;
  std::string balance; // as JSON
};

/// What the pipeline says of its shards; nothing where it has none.
std::optional<Shards> shardsOf(pipe::PipelineOp pipeline);
pipe::ShardsAttr attributeOf(const Shards &shards, mlir::MLIRContext &context);

/// Gives a variant whose programs are those of the shards that take and hold most what is each process's own: rows,
/// portions, and the costs and groups of operations with sums. A stage's op that `shards` does not know stays as it is,
/// on each shard.
void apply(const Shards &shards, plan::Variant &variant);

} // namespace pipec
