// `recompute: auto` against every choice of stages spelled out, each compiled; and together with `cut: auto` and
// `schedule: auto`.
#include "compiler/driver/Compile.h"
#include "compiler/driver/Files.h"
#include "compiler/schedule/model/Random.h"
#include "test/driver/Agreement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

namespace pipec::test {
namespace {

struct Model {
  std::string text;
  int stages = 0;
};

Model randomModel(schedule::Random &random) {
  const auto upTo = [&](int most) { return int(random.below(size_t(most) + 1)); };
  struct Kind {
    const char *schedule, *backward;
    int chunks;
  };
  const Kind kinds[] = {
      {"1f1b", "fused", 1},   {"1f1b", "split", 1},       {"zb-h1", "split", 1},  {"zb-h1", "mixed", 1},
      {"gpipe", "fused", 1},  {"eager-1f1b", "fused", 1}, {"v-half", "split", 2}, {"interleaved-1f1b", "fused", 2},
      {"chimera", "fused", 1}};
  const Kind &kind = kinds[random.below(std::size(kinds))];
  const bool bothWays = std::string(kind.schedule) == "chimera";
  const int ranks = 2 + upTo(kind.chunks == 2 || bothWays ? 0 : 2);
  Model model{{}, ranks * kind.chunks};
  std::vector<std::string> lists(7);
  for (int i = 0; i != model.stages; ++i) {
    const int forward = 1 + upTo(9), input = 1 + upTo(8), weight = upTo(9), activation = 5 + upTo(30);
    const std::string values[] = {fmt::format("{}ms", forward),
                                  fmt::format("{}ms", input),
                                  fmt::format("{}ms", weight),
                                  fmt::format("{}ms", std::max(1, (input + weight) * 9 / 10)),
                                  fmt::format("{}ms", upTo(2) * forward / 2),
                                  fmt::format("{}MiB", activation),
                                  fmt::format("{}MiB", upTo(activation))};
    for (size_t k = 0; k != lists.size(); ++k)
      lists[k] += (i == 0 ? "" : ", ") + values[k];
  }
  const bool fused = std::string(kind.backward) == "fused", mixed = std::string(kind.backward) == "mixed";
  model.text = fmt::format(
      "pipec: 1\npipeline: {{ranks: {}, microbatches: {}{}}}\ncosts:\n  forward: [{}]\n{}{}  recompute: [{}]\n"
      "  link: {{latency: {}us, bandwidth: {}GB/s}}\ntensors: {{boundary: {}MiB, activation: [{}], "
      "recompute_input: [{}], weight_context: {}MiB}}\nschedule: {}\nbackward: {}\ncommunicator: {}\n",
      ranks, ranks * (1 + upTo(2)),
      kind.chunks == 2 ? ", stages_per_rank: 2"
      : bothWays       ? ", placement: bidirectional"
                       : "",
      lists[0], fused ? "" : fmt::format("  backward_input: [{}]\n  backward_weight: [{}]\n", lists[1], lists[2]),
      fused || mixed ? fmt::format("  backward: [{}]\n", lists[3]) : "", lists[4], upTo(2) * 500, upTo(1) == 0 ? 1 : 50,
      upTo(2), lists[5], lists[6], upTo(9), kind.schedule, kind.backward, upTo(2) == 0 ? "shared" : "per_edge");
  return model;
}

struct Plan {
  plan::Variant variant;
  plan::Bytes peak = 0;
};

/// The plan; nothing where there is none.
std::optional<Plan> planOf(const std::string &name, const std::vector<std::string> &set) {
  Compiled compiled;
  Failure failure;
  if (!compile(name, set, Stage::Plan, compiled, failure, Said::Nothing)) {
    return std::nullopt;
  }
  Plan made{compiled.plan.variants.front(), 0};
  for (const simulate::PlaceResult &rank : compiled.walks.front().places)
    made.peak = std::max(made.peak, rank.peak);
  return made;
}

TEST(RecomputeAuto, IsTheBestOfAllChoices) {
  schedule::Random random(11);
  int chosen = 0, unfit = 0;
  for (int round = 0; round != rounds(40); ++round) {
    const Model model = randomModel(random);
    const std::string name = fmt::format("recompute {}.yaml", round);
    keep(name, model.text);
    const std::optional<Plan> all = planOf(name, {"recompute=all"}), none = planOf(name, {"recompute=none"});
    ASSERT_TRUE(all && none) << model.text;
    const plan::Bytes low = std::min(all->peak, none->peak), high = std::max(all->peak, none->peak);
    for (const plan::Bytes limit : {low - low / 10, low, low + (high - low) / 3, low + (high - low) * 2 / 3, high}) {
      const std::string limited = fmt::format("memory.limit={}B", limit);
      std::optional<plan::Time> best;
      std::optional<plan::LeastTime> bound;
      for (uint64_t set = 0; set != uint64_t(1) << model.stages; ++set) {
        std::vector<int> stages;
        for (int s = 0; s != model.stages; ++s)
          if ((set >> s & 1) != 0)
            stages.push_back(s);
        if (const std::optional<Plan> made =
                planOf(name, {limited, stages.empty() ? "recompute=none"
                                                      : fmt::format("recompute=[{}]", fmt::join(stages, ", "))})) {
          const plan::Certificate &its = made->variant.certificate;
          best = std::min(best.value_or(its.span), its.span);
          bound = std::min(bound.value_or(its.spanLowerBound), its.spanLowerBound);
        }
      }
      const std::optional<Plan> own = planOf(name, {limited, "recompute=auto"});
      ASSERT_EQ(own.has_value(), best.has_value()) << model.text << limited;
      unfit += !own;
      if (!own)
        continue;
      EXPECT_EQ(own->variant.certificate.span, *best) << model.text << limited;
      EXPECT_FALSE(own->variant.certificate.spanLowerBound.isRefutedBy(*best)) << model.text << limited;
      EXPECT_LE(own->peak, limit);
      chosen += !plan::stagesDoing(own->variant, plan::kRecomputation).empty();
    }
  }
  EXPECT_GT(chosen, seen(40));
  EXPECT_GT(unfit, seen(5));
}

// Twelve layers, of which the last is heavy, in four stages on two ranks: under this limit a cut as even as can be has
// no order, whatever runs again; no cut has one where nothing does; and none of the catalogue's schedules fits.
TEST(RecomputeAuto, FindsAPlanWhereNothingElseFits) {
  const std::string name = "recompute, cut and order.yaml";
  keep(name, "pipec: 1\n"
             "pipeline: {ranks: 2, stages_per_rank: 2, microbatches: 8, cut: auto}\n"
             "layers:\n"
             "  - {count: 11, forward: 3ms, backward_input: 3ms, backward_weight: 3ms, activation: 100MiB, "
             "weight_context: 50MiB, boundary: 8MiB, weights: 10MiB}\n"
             "  - {forward: 6ms, backward_input: 6ms, backward_weight: 6ms, activation: 300MiB, weight_context: 50MiB, "
             "boundary: 0B, weights: 300MiB}\n"
             "memory: {limit: 800MiB}\n"
             "schedule: auto\n");
  EXPECT_FALSE(planOf(name, {}));
  EXPECT_FALSE(planOf(name, {"recompute=auto", "pipeline.cut=[3, 3, 3, 3]"}));
  for (const char *schedule : {"interleaved-1f1b", "zb-v", "v-min", "v-half", "1f1b-v", "hanayo", "looped-bfs"})
    EXPECT_FALSE(planOf(name, {std::string("schedule=") + schedule})) << schedule;
  const std::optional<Plan> own = planOf(name, {"recompute=auto"});
  ASSERT_TRUE(own);
  EXPECT_LE(own->peak, plan::Bytes(800) << 20);
  EXPECT_EQ(own->variant.cut.size(), 4u);
  EXPECT_FALSE(plan::stagesDoing(own->variant, plan::kRecomputation).empty());
  EXPECT_FALSE(own->variant.cutBound.isRefutedBy(own->variant.certificate.span));
}

} // namespace
} // namespace pipec::test
