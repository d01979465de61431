// What right specs mean: every key of the design's example that is supported, defaults, --set, places.
#include "compiler/spec/Reader.h"

#include <gtest/gtest.h>

using namespace pipec::spec;

namespace {

const std::string kSmall = "pipeline: {ranks: 4, microbatches: 8}\n"
                           "costs:\n"
                           "  forward: 2ms\n"
                           "  backward: 4ms\n"
                           "schedule: 1f1b\n";

Spec read(std::string_view text, const std::vector<std::string> &set = {}) {
  Spec spec;
  std::vector<Diagnostic> diagnostics;
  EXPECT_TRUE(readSpecText(text, "spec.yaml", set, spec, diagnostics));
  for (const Diagnostic &diagnostic : diagnostics)
    ADD_FAILURE() << toString(diagnostic);
  return spec;
}

TEST(Reader, defaults) {
  Spec spec = read(kSmall);
  EXPECT_EQ(spec.ranks.value, 4);
  EXPECT_EQ(spec.microbatches.value, 8);
  EXPECT_EQ(spec.stages, 4);
  EXPECT_FALSE(spec.stagesPerRank);
  EXPECT_FALSE(spec.placement);
  EXPECT_FALSE(spec.has(Figure::BackwardInput));
  EXPECT_FALSE(spec.has(Figure::BackwardWeight));
  EXPECT_EQ(spec[Figure::Backward][3], 4'000'000'000);
  EXPECT_EQ(spec[Figure::Optimizer][3], 0);
  EXPECT_EQ(spec.link.latency, 0);
  EXPECT_EQ(spec.link.bandwidth, 0);
  EXPECT_EQ(spec.memoryLimit.value, 0);
  EXPECT_EQ(spec.schedule.name, "1f1b");
  EXPECT_FALSE(spec.backwardMode);
  EXPECT_EQ(spec.communicator.value, Communicator::PerEdge);
  EXPECT_EQ(spec.rings.value, Rings::Predicted);
  EXPECT_EQ(spec.weights.value, Weights::Ordered);
  EXPECT_EQ(spec.provider.value, "");
}

TEST(Reader, everySupportedKey) {
  Spec spec = read(R"(pipec: 1
pipeline:
  ranks: 4
  stages_per_rank: 2
  placement: v
  batch: 64
  microbatch_size: 4
costs:
  forward: [1ms, 2ms, 3ms, 4ms, 5ms, 6ms, 7ms, {fixed: 1ms, per_sample: 2ms}]
  backward_input: 11ms
  backward_weight: {per_sample: 2ms}
  optimizer: {time: 5ms, global_norm: false}
  link: {latency: 20us, bandwidth: 12.5GB/s}
  links:
    - {from: 0, to: 1, latency: 1ms}
    - {from: 1, to: 0, bandwidth: unlimited}
tensors:
  boundary: 16MiB
  activation: 1.5GiB
  weight_context: {fixed: 1MiB, per_sample: 1MiB}
  workspace: 3B
  gradients: 2GiB
  static: [1B, 2B, 3B, 4B, 5B, 6B, 7B, 8B]
memory: {limit: 40GiB}
schedule: {name: block, interval: 6, forward: [0, 1]}
backward: split
weights: ordered
communicator: per_pair
data_parallel: {degree: 1}
rings: any
provider: {hidden: 256, name: "256", on: true, list: [1.5, x]}
)");
  EXPECT_EQ(spec.stages, 8);
  EXPECT_EQ(spec.stagesPerRank->value, 2);
  EXPECT_EQ(spec.placement->kind, PlacementKind::V);
  EXPECT_EQ(spec.microbatches.value, 16);
  EXPECT_EQ(spec.microbatchSize->value, 4);
  EXPECT_TRUE(spec[Figure::Forward].list);
  EXPECT_EQ(spec[Figure::Forward][1], 2'000'000'000);
  EXPECT_EQ(spec[Figure::Forward][7], 9'000'000'000);
  EXPECT_EQ(spec[Figure::Forward].markOf(1).line, 9);
  EXPECT_EQ(spec[Figure::Forward].markOf(1).column, 18);
  EXPECT_EQ(spec[Figure::BackwardInput][7], 11'000'000'000);
  EXPECT_EQ(spec[Figure::BackwardWeight][0], 8'000'000'000);
  EXPECT_FALSE(spec.has(Figure::Backward));
  EXPECT_EQ(spec[Figure::Optimizer][0], 5'000'000'000);
  EXPECT_EQ(spec.link.bandwidth, 12'500'000'000);
  ASSERT_EQ(spec.links.size(), 2u);
  EXPECT_EQ(spec.links[0].link.latency, 1'000'000'000);
  EXPECT_EQ(spec.links[0].link.bandwidth, 12'500'000'000);
  EXPECT_EQ(spec.links[1].link.latency, 20'000'000);
  EXPECT_EQ(spec.links[1].link.bandwidth, 0);
  EXPECT_EQ(spec.links[1].mark.line, 16);
  EXPECT_EQ(spec[Figure::Boundary][5], 16 << 20);
  EXPECT_EQ(spec[Figure::Activation][5], 1'610'612'736);
  EXPECT_EQ(spec[Figure::WeightContext][5], 5 << 20);
  EXPECT_EQ(spec.workspace.value, 3);
  EXPECT_EQ(spec[Figure::Gradients][0], int64_t(2) << 30);
  EXPECT_EQ(spec[Figure::Static][7], 8);
  EXPECT_EQ(spec.memoryLimit.value, int64_t(40) << 30);
  EXPECT_EQ(spec.memoryLimit.mark.line, 24);
  EXPECT_EQ(spec.memoryLimit.mark.column, 17);
  EXPECT_EQ(spec.schedule.name, "block");
  EXPECT_EQ(spec.schedule.parameters.at("interval").values, std::vector<std::string>{"6"});
  EXPECT_EQ(spec.schedule.parameters.at("forward").values, (std::vector<std::string>{"0", "1"}));
  EXPECT_TRUE(spec.schedule.parameters.at("forward").list);
  EXPECT_EQ(spec.backwardMode->value, Backward::Split);
  EXPECT_EQ(spec.communicator.value, Communicator::PerPair);
  EXPECT_EQ(spec.rings.value, Rings::Any);
  EXPECT_EQ(spec.provider.value, R"({"hidden":256,"name":"256","on":true,"list":[1.5,"x"]})");
}

TEST(Reader, whatDoesNotRunYetIsReadAllTheSame) {
  Spec spec =
      read(kSmall + "weights: fill\n"
                    "data_parallel: {degree: 2, collective: decoupled, fusion: 25MB, policy: {name: ddp, first: "
                    "2MB}, costs: {all_reduce: {start: 1ms, bandwidth: 2GB/s}}, shard: none}\n",
           {"costs.optimizer={time: 1ms, global_norm: true}"});
  EXPECT_EQ(spec.weights.value, Weights::Fill);
  EXPECT_EQ(spec.weights.mark.line, 6);
  EXPECT_TRUE(spec.globalNorm.value);
  EXPECT_EQ(spec.globalNorm.mark.source, 1);
  EXPECT_EQ(spec.globalNorm.mark.column, 26);
  EXPECT_EQ(spec.dataParallel.degree.value, 2);
  EXPECT_EQ(spec.dataParallel.collective->value, Collective::Decoupled);
  EXPECT_EQ(spec.dataParallel.fusion->value, 25'000'000);
  EXPECT_EQ(spec.dataParallel.fusion->mark.line, 7);
  EXPECT_EQ(spec.dataParallel.policy.value, "ddp");
  EXPECT_EQ(spec.dataParallel.parameters.at("first").value, 2'000'000);
  EXPECT_EQ(spec.dataParallel.allReduce->bandwidth, 2'000'000'000);
  EXPECT_FALSE(spec.dataParallel.reduceScatter);
  EXPECT_EQ(spec.dataParallel.shard->value, Shard::None);
}

TEST(Reader, scheduleParameters) {
  Spec spec = read(kSmall, {"schedule={name: block, interval: 6, forward: [0, 1, 2, 3], backward: [9, 8, 7, 6]}"});
  const Parameter &forward = spec.schedule.parameters.at("forward");
  EXPECT_TRUE(forward.list);
  EXPECT_EQ(forward.values, (std::vector<std::string>{"0", "1", "2", "3"}));
  EXPECT_EQ(forward.marks[2].column, 44);
  spec = read(kSmall, {"schedule={name: order, file: orders/x.csv}"});
  EXPECT_EQ(spec.schedule.parameters.at("file").values[0], "orders/x.csv");
  EXPECT_EQ(resolvePath(spec, "orders/x.csv"), "orders/x.csv");
  spec.path = "/home/specs/a.yaml";
  EXPECT_EQ(resolvePath(spec, "orders/x.csv"), "/home/specs/orders/x.csv");
  EXPECT_EQ(resolvePath(spec, "/orders/x.csv"), "/orders/x.csv");
}

TEST(Reader, placementList) {
  Spec spec = read(kSmall, {"pipeline.placement=[[0,7],[1,6],[2,5],[3,4]]"});
  EXPECT_EQ(spec.stages, 8);
  EXPECT_EQ(spec.placement->kind, PlacementKind::List);
  EXPECT_EQ(spec.placement->stages[3], (std::vector<int32_t>{3, 4}));
  EXPECT_EQ(read(kSmall, {"pipeline.placement=v"}).stages, 8);
  EXPECT_EQ(read(kSmall, {"pipeline.placement=bidirectional"}).placement->kind, PlacementKind::Bidirectional);
}

TEST(Reader, settingsAreLaidOver) {
  Spec spec = read(kSmall, {"costs.forward=[1ms, 2ms, 3ms, 4ms]", "memory.limit=8GiB", "schedule={name: kfkb, k: 2}",
                            "schedule.k=3", "costs.forward=7ms"});
  EXPECT_EQ(spec[Figure::Forward][2], 7'000'000'000);
  EXPECT_EQ(spec.memoryLimit.value, int64_t(8) << 30);
  EXPECT_EQ(spec.sources[spec.memoryLimit.mark.source], "--set memory.limit=8GiB");
  EXPECT_EQ(spec.schedule.name, "kfkb");
  EXPECT_EQ(spec.schedule.parameters.at("k").values, std::vector<std::string>{"3"});
}

TEST(Reader, eachRankMayHaveItsOwnMemoryLimit) {
  Spec spec = read(kSmall, {"memory.limit=[1GiB, 4GiB, 2GiB, 2GiB]", "memory.limit[2]=3GiB"});
  EXPECT_EQ(spec.memoryLimit.value, int64_t(4) << 30);
  EXPECT_EQ(spec.memoryLimits,
            (std::vector<int64_t>{int64_t(1) << 30, int64_t(4) << 30, int64_t(3) << 30, int64_t(2) << 30}));
  spec = read(kSmall, {"memory.limit=[1GiB, 4GiB, 2GiB, 2GiB]", "memory.limit=2GiB"});
  EXPECT_EQ(spec.memoryLimit.value, int64_t(2) << 30);
  EXPECT_TRUE(spec.memoryLimits.empty());
}

TEST(Reader, settingsReachIntoLists) {
  const Spec spec = read(kSmall, {"costs.forward=[1ms, 2ms, 3ms, 4ms]", "costs.forward[2]=7ms",
                                  "costs.links=[{from: 0, to: 1}, {from: 1, to: 0}]", "costs.links[1].latency=5ms"});
  EXPECT_EQ(spec[Figure::Forward][2], 7'000'000'000);
  EXPECT_EQ(spec[Figure::Forward][3], 4'000'000'000);
  EXPECT_EQ(spec.sources[spec[Figure::Forward].markOf(2).source], "--set costs.forward[2]=7ms");
  EXPECT_EQ(spec.links[0].link.latency, 0);
  EXPECT_EQ(spec.links[1].link.latency, 5'000'000'000);
  // Variants are entries of a list too; what an alias repeats is changed in one place alone.
  std::vector<Spec> variants;
  std::vector<Diagnostic> diagnostics;
  const std::string text = kSmall + "variants: [&a {schedule: 1f1b}, *a]\n";
  ASSERT_TRUE(readSpecsText(text, "spec.yaml", {"variants[1].schedule=gpipe"}, variants, diagnostics));
  EXPECT_EQ(variants[0].schedule.name, "1f1b");
  EXPECT_EQ(variants[1].schedule.name, "gpipe");
}

TEST(Reader, hashIsOfBytesAndSettings) {
  // FNV-1a 64: offset basis, xor, times the prime.
  uint64_t hash = 14695981039346656037u;
  for (char c : kSmall)
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  EXPECT_EQ(read(kSmall).hash, hash);
  EXPECT_NE(read(kSmall, {"memory.limit=8GiB"}).hash, hash);
  EXPECT_NE(read(kSmall + "# a comment\n").hash, hash);
}

TEST(Reader, aliasesAndOtherNotation) {
  Spec spec = read("pipeline: {ranks: 2, microbatches: 8}\n"
                   "costs: {forward: &t \"2ms\", backward_input: *t, backward_weight: *t}\n"
                   "schedule: {name: '1f1b'}\n");
  EXPECT_EQ(spec[Figure::BackwardWeight][1], 2'000'000'000);
  EXPECT_EQ(spec.schedule.name, "1f1b");
  EXPECT_EQ(read("\xEF\xBB\xBF" + std::string(kSmall)).stages, 4);
}

} // namespace
