// Times by local batch, and what schedule burst reads, needs and refuses, with its place.
#include "test/spec/Expect.h"

#include <fmt/format.h>

namespace pipec::spec::test {
namespace {

constexpr int64_t kUs = 1'000'000;

const std::string kTimes = "forward: {samples: {1: 43us, 4: 130us}}, backward: {samples: {1: 80us, 2: 150us}}";

/// The schedule stands on the second line, layers from the third on.
std::string with(const std::string &schedule, const std::string &layers = "[{count: 3, " + kTimes + "}]",
                 const std::string &pipeline = "ranks: 8, batch: 16", const std::string &more = "") {
  return fmt::format("pipeline: {{{}}}\nschedule: {}\nlayers: {}\n{}", pipeline, schedule, layers, more);
}

Burst burst(const std::string &parameters) {
  return right(with(fmt::format("{{name: burst{}}}", parameters))).at(0).burst.value();
}

TEST(Burst, timesBySamplesOfAMicrobatch) {
  const auto forward = [](const std::string &samples, int size) {
    const Spec spec = right(with("1f1b", fmt::format("[{{forward: {{samples: {}}}, backward: 1us}}]", samples),
                                 fmt::format("ranks: 1, batch: {}, microbatch_size: {}", 4 * size, size)))
                          .at(0);
    EXPECT_FALSE(spec.burst);
    return spec.forward[0];
  };
  const std::string samples = "{4: 13ps, 2: 10ps, 8: 12ps}"; // in any order
  const std::pair<int, int64_t> expected[] = {{1, 10}, {2, 10}, {3, 12}, {4, 13}, {5, 13}, {7, 12}, {9, 14}, {80, 120}};
  for (const auto &[size, time] : expected)
    EXPECT_EQ(forward(samples, size), time) << size;
}

TEST(Burst, timesBySamplesRefused) {
  const auto of = [](const std::string &forward,
                     const std::string &pipeline = "ranks: 1, batch: 4, microbatch_size: 2") {
    return wrong(with("1f1b", fmt::format("[{{backward: 1us, forward: {}}}]", forward), pipeline));
  };
  EXPECT_EQ(of("{samples: {1: 1us}}"), "");
  for (const char *none : {"{}", "[1us]", "3us"})
    EXPECT_TRUE(
        of(fmt::format("{{samples: {}}}", none))
            .starts_with("3:46: error: layers[0].forward.samples: expected times by numbers of samples, such as "
                         "{1: 43us, 2: 74us}, found "))
        << none;
  EXPECT_EQ(of("{samples: {0: 1us}}"), "3:47: error: layers[0].forward.samples: expected an integer from 1 to "
                                       "1000000000000000000, found '0'");
  EXPECT_EQ(of("{samples: {1: 1us, 1: 2us}}"), "");
  EXPECT_EQ(of("{samples: {1: 1}}"), "");
  EXPECT_EQ(of("{samples: {1: 1us}, fixed: 1us}"), "");
  EXPECT_EQ(of("{sample: {1: 1us}}"), "");
  EXPECT_EQ(of("{}"), "");
  EXPECT_EQ(of("{samples: {1: 1us}}", "ranks: 1, microbatches: 2"), "");
  EXPECT_EQ(wrong(with("1f1b", "[{forward: 1us, backward: 1us, recompute: {samples: {1: 1us}}}]",
                       "ranks: 1, batch: 4, microbatch_size: 2")),
            "");
  EXPECT_EQ(of("{samples: {1: 500000s}}", "ranks: 1, batch: 3, microbatch_size: 3"), "");
}

TEST(Burst, variantsShareTimesBySamples) {
  const auto second = [](const std::string &time) {
    const std::string layers = "[{forward: {samples: {1: 1us, 2: 2us}}, backward: {samples: {1: 1us}}}]";
    return wrong(
        with("1f1b", layers, "ranks: 1, batch: 4, microbatch_size: 1",
             fmt::format("variants:\n- {{}}\n- {{pipeline: {{microbatch_size: 2}}, layers: [{{forward: {{samples: "
                         "{{1: 1us, 2: {}}}}}, backward: {{samples: {{1: 1us}}}}}}]}}\n",
                         time)));
  };
  EXPECT_EQ(second("2000ns"), "");
  EXPECT_EQ(second("3us"), "");
}

TEST(Burst, defaults) {
  for (const char *schedule : {"burst", "{name: burst}"}) {
    const Spec spec = right(with(schedule)).at(0);
    ASSERT_TRUE(spec.burst);
    EXPECT_EQ(spec.burst->planner, Planner::Exact);
    EXPECT_EQ(spec.burst->foreground, 1'000'000);
    EXPECT_EQ(spec.burst->mark.line, 2);
    EXPECT_TRUE(spec.burst->widths.empty());
    EXPECT_EQ(spec.burst->sync, Sync::Overlap);
    EXPECT_EQ(spec.burst->choices, WidthChoices::Powers);
    EXPECT_EQ(spec.collective.value, GroupSum::Ring);
    EXPECT_EQ(spec.microbatches.value, 1);
    EXPECT_EQ(spec.microbatchSize->value, 16);
    EXPECT_EQ(spec.microbatchSize->mark.column, 29);
    EXPECT_EQ(spec.stages, 3) << "as many as layers";
    EXPECT_EQ(spec.forward.values, std::vector<int64_t>(3, 520 * kUs)) << "of the whole batch";
  }
}

TEST(Burst, layersBySamples) {
  const Spec spec =
      right(with("burst",
                 "[{" + kTimes + ", boundary: {fixed: 1KiB, per_sample: 3MiB}, activation: {per_sample: 2B}}, {" +
                     kTimes + ", weight_context: {fixed: 5B}, activation: 0B}]",
                 "ranks: 8, batch: 16, microbatches: 1",
                 "costs: {collective: tree}\ntensors: {boundary: {per_sample: 7B}}\n"))
          .at(0);
  EXPECT_EQ(spec.collective.value, GroupSum::Tree);
  EXPECT_EQ(spec.collective.mark.line, 4);
  const LayerBySamples &first = spec.layers->entries.at(0).bySamples, &second = spec.layers->entries.at(1).bySamples;
  EXPECT_EQ(first.forward, (schedule::TimesBySamples{{1, 43 * kUs}, {4, 130 * kUs}}));
  EXPECT_EQ(first.backward, (schedule::TimesBySamples{{1, 80 * kUs}, {2, 150 * kUs}}));
  EXPECT_EQ(first.boundary, (BySample{1 << 10, 3 << 20}));
  EXPECT_EQ(first.activation, (BySample{0, 2}));
  EXPECT_EQ(second.boundary, (BySample{0, 7})) << "that of tensors";
  EXPECT_EQ(second.weightContext, (BySample{5, 0}));
  EXPECT_EQ(second.activation, (BySample{0, 0}));
  EXPECT_EQ(spec.boundary[0], (1 << 10) + 16 * (3 << 20));
  EXPECT_EQ(right(with("burst", "[{" + kTimes + "}]", "ranks: 8, batch: 16, microbatch_size: 16")).at(0).stages, 1);
}

TEST(Burst, parameters) {
  EXPECT_EQ(burst(", foreground: 90%").foreground, 900'000);
  EXPECT_EQ(burst(", foreground: 0.75").foreground, 750'000);
  EXPECT_EQ(burst(", foreground: 90%").mark.column, 37);
  const Burst paper = burst(", amplification: 2.5, sync: end, choices: all");
  EXPECT_EQ(paper.planner, Planner::Paper);
  EXPECT_EQ(paper.amplification, 2'500'000);
  EXPECT_EQ(paper.sync, Sync::End);
  EXPECT_EQ(paper.choices, WidthChoices::All);
  EXPECT_EQ(burst(", widths: 4").planner, Planner::Given);
  EXPECT_EQ(burst(", widths: 4").widths, (std::vector<int32_t>{4}));
  EXPECT_EQ(burst(", widths: [8, 3, 1]").widths, (std::vector<int32_t>{8, 3, 1}));
  const std::vector<Spec> specs = right(with("burst") + "variants: {foreground: [100%, 75%]}\n");
  EXPECT_EQ(specs.at(1).burst->foreground, 750'000);
  EXPECT_EQ(specs.at(1).variantName, "foreground=75%");
}

TEST(Burst, wrongParameters) {
  const auto of = [](const std::string &parameters) {
    return wrong(with(fmt::format("{{name: burst, {}}}", parameters)));
  };
  for (const auto &[parameters, message] : std::vector<std::pair<std::string, std::string>>{
           {"width: 4", ""},
           {"foreground: 0%", ""},
           {"foreground: 101%", ""},
           {"foreground: [90%]", ""},
           {"amplification: 0.5", ""},
           {"amplification: 2, foreground: 90%", ""},
           {"widths: 0", ""},
           {"widths: 9", ""},
           {"widths: [8, 8]", ""},
           {"widths: []", ""},
           {"widths: [8, x, 4]", ""},
           {"sync: ends", ""},
           {"choices: [all]", ""},
       })
    EXPECT_EQ(of(parameters), message) << parameters;
  EXPECT_EQ(wrong(with("{name: burst, widths: 6}", "[{" + kTimes + "}]", "ranks: 8, batch: 4")), "");
  EXPECT_EQ(wrong(with("burst", "[{" + kTimes + "}]", "ranks: 8, batch: 4", "costs: {collective: star}\n")), "");
}

TEST(Burst, needsABatchOfOneMicrobatch) {
  const auto of = [](const std::string &pipeline) { return wrong(with("burst", "[{" + kTimes + "}]", pipeline)); };
  EXPECT_EQ(of("ranks: 8"), "");
  EXPECT_EQ(of("ranks: 8, microbatches: 2"), "");
  EXPECT_EQ(of("ranks: 8, batch: 16, microbatch_size: 4"), "");
  EXPECT_EQ(of("ranks: 8, batch: 3000000000"), "");
}

TEST(Burst, needsLayersBySamples) {
  EXPECT_EQ(wrong("pipeline: {ranks: 8, batch: 16}\nschedule: burst\ncosts: {forward: 1ms, backward: 1ms}\n"), "");
  for (const auto &[layer, message] : std::vector<std::pair<std::string, std::string>>{
           {"forward: {samples: {1: 43us}}, backward: {fixed: 1us}", ""},
           {"backward: {samples: {1: 43us}}, forward: 1us", ""},
           {"forward: {samples: {1: 43us}}", ""},
           {"forward: {samples: {1: 43us}}, backward_input: 1us, backward_weight: 1us", ""},
           {kTimes + ", boundary: 3MiB", ""},
           {kTimes + ", activation: 3MiB", ""},
           {kTimes + ", weight_context: 3MiB", ""},
           {kTimes + ", splits: [{name: a, units: 4, forward: 1us, backward: 1us}]", ""},
           {kTimes + ", count: 1048576}, {count: 1, " + kTimes, ""},
       })
    EXPECT_EQ(wrong(with("burst", "[{" + layer + "}]")), message) << layer;
}

TEST(Burst, doesNotGoWith) {
  for (const auto &[more, message] : std::vector<std::pair<std::string, std::string>>{
           {"data_parallel: {degree: 2}", ""},
           {"tensor_parallel: {shards: 2}", ""},
           {"recompute: all", ""},
           {"recompute: [0]", ""},
           {"recompute: none", ""},
           {"backward: split", ""},
           {"backward: mixed", ""},
           {"backward: fused", ""},
           {"weights: fill", ""},
           {"tensors: {boundary: 1B}", ""},
           {"tensors: {boundary: [1B, 2B]}", ""},
           {"tensors: {static: [1B, 2B]}", ""},
       })
    EXPECT_EQ(wrong(with("burst", "[{count: 3, " + kTimes + "}]", "ranks: 8, batch: 16", more + "\n")), message)
        << more;
  for (const auto &[shape, message] : std::vector<std::pair<std::string, std::string>>{
           {"stages_per_rank: 2", ""},
           {"placement: v", ""},
           {"cut: auto", ""},
           {"slices: 2", ""},
       })
    EXPECT_EQ(wrong(with("burst", "[{count: 3, " + kTimes + "}]", "ranks: 8, batch: 16, " + shape)), message) << shape;
}

} // namespace
} // namespace pipec::spec::test
