// Shards of ranks (tensor parallelism): what belongs to a single process, besides the program that all shards of its
// rank run. Times are picoseconds, sizes bytes, factors millionths.
#pragma once

#include "dialects/pipe/Pipe.h"
#include "runtime/plan/Plan.h"

#include <optional>
#include <string>
#include <vector>

namespace pipec {

/// The times of an op of a stage on each shard, as in plan::OwnCost and Operation::cost.
struct ShardedPass {
  plan::Kind kind = plan::Kind::Forward;
  plan::Time cost = 0;
  std::vector<plan::Time> before, between, after; // by shard
  bool meets = false;
};

struct ShardedStage {
  std::vector<plan::Bytes> activation, context, backwardContext; // by shard; bytes of one microbatch
  std::vector<ShardedPass> passes;
  std::vector<plan::Portion> portions; // by layers, split and shard
};

struct Shards {
  int32_t count = 2;                               // of each rank
  std::vector<int64_t> factors;                    // by process: rank * count + shard
  std::vector<plan::Bytes> staticBytes, workspace; // by process
  std::vector<ShardedStage> stages;
  std::string balance; // as JSON
};

/// The pipeline's shards; none if it has none.
std::optional<Shards> shardsOf(pipe::PipelineOp pipeline);
pipe::ShardsAttr attributeOf(const Shards &shards, mlir::MLIRContext &context);

/// Adds the data of single processes to a variant: rows, portions, and the costs and groups of operations with sums.
/// The variant's programs must be those of the slowest and fullest shards. An op of a stage that `shards` does not have
/// stays the same on each shard.
void apply(const Shards &shards, plan::Variant &variant);

} // namespace pipec
