// Plans for what a run measured: their order is that of a compile for such a network, their figures the spec's.
#include "compiler/replan/Replan.h"

#include "compiler/driver/Files.h"
#include "compiler/schedule/model/Random.h"
#include "runtime/adapt/Forecast.h"
#include "runtime/plan/Load.h"
#include "runtime/simulate/Simulate.h"
#include "test/driver/Agreement.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace pipec::test {
namespace {

constexpr plan::Time kMs = 1'000'000'000;
constexpr int64_t kMB = 1'000'000;

spec::Spec specOf(const std::string &text) {
  keep("measured.yaml", text);
  std::vector<spec::Spec> specs;
  Failure failure;
  EXPECT_TRUE(readSpecs("measured.yaml", {}, specs, failure)) << failure.message;
  return specs.front();
}

Compiled compiledFor(const spec::Spec &spec) {
  Compiled made;
  Failure failure;
  EXPECT_TRUE(compile(spec, made, failure)) << failure.message;
  return made;
}

plan::Time stepOn(const plan::Variant &variant, const spec::Measured &measured) {
  simulate::Scenario network;
  for (const auto &[ends, link] : measured.links)
    network.links[ends] = {{0, link.bandwidth, link.latency}};
  for (const auto &[rank, percent] : measured.percent)
    network.slow[rank] = {{0, simulate::kNever, percent}};
  return adapt::Forecast({&variant}).stepTime(0, network, 4);
}

/// Schedules with one backward or two, chunks, two copies, pairs, recomputation, a global norm and W that fill.
const char *const kSpecs[] = {
    "costs: {forward: 2ms, backward: 4ms, optimizer: 1ms}\nschedule: {name: slack}\n",
    "costs: {forward: [2ms, 3ms, 2ms, 1ms], backward_input: 2ms, backward_weight: 1ms, optimizer: {time: 1ms, "
    "global_norm: true}}\nschedule: zb-h1\n",
    "costs: {forward: 2ms, backward_input: 2ms, backward_weight: 2ms}\nschedule: 1f1b\nbackward: split\nweights: "
    "fill\n",
    "costs: {forward: 2ms, backward_input: 2ms, backward_weight: 2ms}\nschedule: zb-v\n",
    "costs: {forward: 2ms, backward: 4ms}\nschedule: {name: interleaved-1f1b}\nrecompute: all\n",
    "costs: {forward: 2ms, backward: 4ms, backward_input: 2ms, backward_weight: 2ms, overlapped: 5ms}\nschedule: "
    "dualpipe-v\n",
    "costs: {forward: 2ms, backward: 4ms}\nschedule: chimera\ncommunicator: shared\n",
    "costs: {forward: 2ms, backward_input: 2ms, backward_weight: 2ms}\nschedule: auto\n",
};

std::string textOf(const std::string &rest) {
  return "pipec: 1\npipeline: {ranks: 4, microbatches: 8}\ntensors: {boundary: 1MB, activation: 4MB}\n" + rest;
}

TEST(Replan, WhatIsMeasuredAsTheSpecSaysChangesNothing) {
  for (const char *rest : kSpecs) {
    spec::Spec spec = specOf(textOf(rest));
    const Compiled own = compiledFor(spec);
    spec.measured.emplace();
    const Compiled made = compiledFor(spec);
    EXPECT_EQ(own.plan, made.plan) << rest;
    EXPECT_EQ(own.bytes, made.bytes) << rest;
  }
}

/// The plan has the spec's costs and links, and is proven on them; on what was measured it takes what a compile for
/// that network takes.
TEST(Replan, PlansOfReplicasAreNotMadeAnew) {
  spec::Spec spec = specOf("pipec: 1\npipeline: {ranks: 2, microbatches: 2}\ncosts: {forward: 2ms, backward: 4ms}\n"
                           "tensors: {gradients: 1MB, static: 1MB}\nschedule: 1f1b\ndata_parallel: {degree: 2}\n");
  spec.measured.emplace();
  Compiled made;
  Failure failure;
  EXPECT_FALSE(compile(spec, made, failure, Said::Nothing));
  EXPECT_EQ(failure.code, Code::Input);
  EXPECT_EQ(failure.message, "data_parallel: a plan of replicas is not made anew for what was measured yet");
}

TEST(Replan, PlansOfShardsAreNotMadeAnew) {
  spec::Spec spec =
      specOf("pipec: 1\npipeline: {ranks: 2, microbatches: 2}\nschedule: 1f1b\ntensor_parallel: {shards: 2}\n"
             "layers: [{count: 2, splits: [{name: a, units: 2, forward: 2ms, backward: 4ms}]}]\n");
  spec.measured.emplace();
  Compiled made;
  Failure failure;
  EXPECT_FALSE(compile(spec, made, failure, Said::Nothing));
  EXPECT_EQ(failure.code, Code::Input);
  EXPECT_EQ(failure.message, "tensor_parallel: a plan of shards is not made anew for what was measured yet");
}

TEST(Replan, OrdersAreForWhatWasMeasuredAndFiguresTheSpecs) {
  for (const char *rest : kSpecs) {
    spec::Spec spec = specOf(textOf(rest));
    const Compiled own = compiledFor(spec);
    spec.measured.emplace();
    spec.measured->links[{1, 2}] = {2 * kMs, 500 * kMB};
    spec.measured->links[{2, 1}] = {0, 200 * kMB};
    spec.measured->percent[2] = 130;
    const Compiled made = compiledFor(spec);
    const plan::Variant &variant = made.plan.variants.front();
    ASSERT_TRUE(plan::verify(made.plan).ok()) << rest;
    simulate::Result walk;
    plan::Time span = 0;
    ASSERT_TRUE(simulate::prove(variant, walk).ok()) << rest;
    ASSERT_TRUE(simulate::span(variant, span, walk).ok());
    EXPECT_EQ(variant.certificate.makespan, walk.makespan) << rest;
    EXPECT_EQ(variant.certificate.span, span) << rest;
    EXPECT_FALSE(variant.certificate.spanLowerBound.isRefutedBy(span)) << rest;
    EXPECT_EQ(variant.certificate.spanLowerBound, own.plan.variants.front().certificate.spanLowerBound) << rest;
    for (size_t rank = 0; rank != variant.programs.size(); ++rank)
      for (const plan::Operation &each : variant.programs[rank].operations)
        for (const plan::Operation &other : own.plan.variants.front().programs[rank].operations)
          if (each.kind == other.kind && each.stage == other.stage && each.of == other.of && each.peer == other.peer) {
            EXPECT_EQ(each.cost, other.cost) << rest << plan::name(each.kind);
            EXPECT_EQ(each.latency, other.latency) << rest;
          }
    const plan::Time theirs = stepOn(variant, *spec.measured);
    EXPECT_LE(double(theirs), 1.001 * double(stepOn(own.plan.variants.front(), *spec.measured))) << rest;
  }
}

/// A link that becomes slow: what slack gains is what it would have gained in a plan for that network.
TEST(Replan, TheBestForASlowLinkIsFound) {
  const std::string text = "pipec: 1\npipeline: {ranks: 4, microbatches: 24}\n"
                           "costs: {forward: 2ms, backward: 4ms, link: {bandwidth: 100GB/s}}\n"
                           "tensors: {boundary: 1MB, activation: 100MB}\nmemory: {limit: 850MB}\n"
                           "schedule: {name: kfkb, k: 1}\nvariants: {k: [1, 2]}\n";
  keep("slow.yaml", text);
  Compiled running;
  Failure failure;
  ASSERT_TRUE(compile("slow.yaml", {}, Stage::Plan, running, failure));
  spec::Measured measured;
  measured.links[{1, 2}] = measured.links[{2, 1}] = {0, 200 * kMB};
  std::vector<Replanned> made;
  ASSERT_TRUE(replan({"slow.yaml", {}}, running.plan, measured, made, failure));
  std::map<std::string, plan::Time> steps;
  for (const Replanned &each : made)
    steps[each.name] = stepOn(each.plan.variants.front(), measured);
  EXPECT_EQ(steps.at("k=2"), stepOn(running.plan.variants[1], measured));
  EXPECT_NEAR(double(steps.at("k=2")), 218.0 * kMs, 0.1 * kMs);
  EXPECT_NEAR(double(steps.at("slack 1-3-1")), 172.3 * kMs, 0.1 * kMs);
  EXPECT_TRUE(steps.contains("auto"));
  EXPECT_TRUE(recut({"slow.yaml", {}}, running.plan, measured).empty());
  // In the memory of six microbatches there is no k = 2, and the same slack.
  made.clear();
  ASSERT_TRUE(replan({"slow.yaml", {"memory.limit=610MB"}}, running.plan, measured, made, failure));
  for (const Replanned &each : made) {
    simulate::Result walk;
    ASSERT_TRUE(simulate::simulate(each.plan.variants.front(), {}, walk).ok());
    for (const simulate::PlaceResult &rank : walk.places)
      EXPECT_LE(rank.peak, 610 * kMB) << each.name;
    steps.erase(each.name);
  }
  EXPECT_TRUE(steps.contains("k=2"));
  EXPECT_FALSE(steps.contains("slack 1-3-1"));
}

/// W that is deferred, and the spec's own variants where they have one of their own.
TEST(Replan, DefersWhereThereIsAWOfItsOwn) {
  keep("split.yaml",
       "pipec: 1\npipeline: {ranks: 4, microbatches: 8}\n"
       "costs: {forward: 2ms, backward_input: 2ms, backward_weight: 2ms}\nschedule: {name: kfkb, k: 2}\n");
  Compiled running;
  Failure failure;
  ASSERT_TRUE(compile("split.yaml", {}, Stage::Plan, running, failure));
  std::vector<Replanned> made;
  ASSERT_TRUE(replan({"split.yaml", {}}, running.plan, {}, made, failure));
  std::vector<std::string> names;
  for (const Replanned &each : made) {
    names.push_back(each.name);
    EXPECT_EQ(each.plan.variants.front().name, each.name);
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"kfkb", "kfkb, W deferred", "slack 1-1-1", "slack 1-1-1, W deferred", "auto"}));
}

/// A rank at 130 %: with its layers moved, a step is shorter by what the issue says is possible.
TEST(Replan, ACutForWhatWasMeasuredMovesLayersOffASlowRank) {
  keep("layers.yaml", "pipec: 1\npipeline: {ranks: 4, microbatches: 64, cut: [8, 8, 8, 8]}\n"
                      "layers: [{count: 32, forward: 250us, backward: 500us}]\ntensors: {boundary: 1kB}\n"
                      "schedule: {name: kfkb, k: 1}\nvariants: {k: [1, 2]}\n");
  Compiled running;
  Failure failure;
  ASSERT_TRUE(compile("layers.yaml", {}, Stage::Plan, running, failure));
  spec::Measured measured;
  measured.percent[1] = 130;
  const std::vector<Replanned> cuts = recut({"layers.yaml", {}}, running.plan, measured);
  ASSERT_GT(cuts.size(), 2u); // the spec's variants, slack, auto
  for (const Replanned &each : cuts) {
    EXPECT_EQ(each.plan.variants.front().cut, cuts.front().plan.variants.front().cut) << each.name;
    EXPECT_TRUE(plan::verify(each.plan).ok()) << each.name;
  }
  EXPECT_TRUE(std::equal(cuts[0].plan.variants[0].programs.begin(), cuts[0].plan.variants[0].programs.end(),
                         cuts[1].plan.variants[0].programs.begin(), [](const auto &one, const auto &other) {
                           return one.operations.front().cost == other.operations.front().cost;
                         }));
  EXPECT_LT(cuts[0].plan.variants[0].cut[1], 8);
  const double gain =
      double(stepOn(running.plan.variants[0], measured)) / double(stepOn(cuts[0].plan.variants[0], measured)) - 1;
  EXPECT_GT(gain, 0.11);
  EXPECT_LT(gain, 0.157);
}

/// Whatever is measured, a plan stays within the memory of its spec and is proven.
TEST(Replan, RandomMeasurementsGivePlansThatMayRun) {
  schedule::Random random(20);
  for (int round = 0; round != rounds(12); ++round) {
    keep("random.yaml", fmt::format("pipec: 1\npipeline: {{ranks: 3, microbatches: {}}}\n"
                                    "costs: {{forward: 2ms, backward_input: {}ms, backward_weight: 2ms}}\n"
                                    "tensors: {{boundary: 1MB, activation: 10MB, weight_context: {}MB}}\n"
                                    "memory: {{limit: 90MB}}\nschedule: 1f1b\ncommunicator: {}\n",
                                    4 + random.below(6), 1 + random.below(4), random.below(6),
                                    random.below(2) == 0 ? "shared" : "per_edge"));
    Compiled running;
    Failure failure;
    ASSERT_TRUE(compile("random.yaml", {}, Stage::Plan, running, failure)) << failure.message;
    spec::Measured measured;
    for (int32_t from = 0; from != 3; ++from)
      for (const int32_t to : {from - 1, from + 1})
        if (to >= 0 && to != 3 && random.below(2) == 0)
          measured.links[{from, to}] = {int64_t(random.below(3)) * kMs, int64_t(1 + random.below(9)) * 100 * kMB};
    for (int32_t rank = 0; rank != 3; ++rank)
      measured.percent[rank] = 50 + int64_t(random.below(100));
    std::vector<Replanned> made;
    ASSERT_TRUE(replan({"random.yaml", {}}, running.plan, measured, made, failure)) << failure.message;
    EXPECT_GE(made.size(), 3u);
    for (const Replanned &each : made) {
      plan::Plan read;
      simulate::Result walk;
      ASSERT_TRUE(plan::decode(each.bytes, read).ok());
      EXPECT_EQ(read, each.plan);
      ASSERT_TRUE(plan::verify(read).ok()) << each.name;
      ASSERT_TRUE(simulate::prove(read.variants.front(), walk).ok()) << each.name;
      for (const simulate::PlaceResult &rank : walk.places)
        EXPECT_LE(rank.peak, 90 * kMB) << each.name;
    }
  }
}

} // namespace
} // namespace pipec::test
