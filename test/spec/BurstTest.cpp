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
    return spec[Figure::Forward][0];
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
  for (const auto &[forward, message] : std::vector<std::pair<std::string, std::string>>{
           {"{samples: {1: 1us}}", ""},
           {"{samples: {}}", "3:45: error: layers[0].forward.samples: expected times by numbers of samples, such as "
                             "{1: 43us, 2: 74us}, found a map"},
           {"{samples: [1us]}", "3:45: error: layers[0].forward.samples: expected times by numbers of samples, such as "
                                "{1: 43us, 2: 74us}, found a list"},
           {"{samples: 3us}", "3:45: error: layers[0].forward.samples: expected times by numbers of samples, such as "
                              "{1: 43us, 2: 74us}, found '3us'"},
           {"{samples: {0: 1us}}",
            "3:46: error: layers[0].forward.samples: expected an integer from 1 to 1000000000000000000, found '0'"},
           {"{samples: {1: 1us, 1: 2us}}", "3:54: error: key '1' is given twice\n3:46: note: first given here"},
           {"{samples: {1: 1}}",
            "3:49: error: layers[0].forward.samples.1: expected a duration with a unit (ps, ns, us, ms, s), found '1'"},
           {"{samples: {1: 1us}, fixed: 1us}",
            "3:55: error: layers[0].forward.fixed: unknown key; known here: samples"},
           {"{sample: {1: 1us}}",
            "3:36: error: layers[0].forward.sample: unknown key; known here: fixed, per_sample, samples"},
           {"{}", "3:35: error: layers[0].forward: expected fixed or per_sample, or both, or samples, found a map"},
           {"1us, recompute: {samples: {1: 1us}}",
            "3:52: error: layers[0].recompute.samples: unknown key; known here: fixed, per_sample"},
       })
    EXPECT_EQ(of(forward), message) << forward;
  EXPECT_EQ(of("{samples: {1: 1us}}", "ranks: 1, microbatches: 2"),
            "3:35: error: layers[0].forward: times by samples need pipeline.batch and pipeline.microbatch_size, which "
            "are missing");
  EXPECT_EQ(of("{samples: {1: 500000s}}", "ranks: 1, batch: 3, microbatch_size: 3"),
            "3:10: error: costs: stage 0 works longer than 10^18 ps in a step of 1 microbatches");
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
  EXPECT_EQ(second("3us"), "6:44: error: layers: expected the same in all variants, found another\n3:9: note: the "
                           "first variant's is given here");
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
    EXPECT_EQ(spec[Figure::Forward].values, std::vector<int64_t>(3, 520 * kUs)) << "of the whole batch";
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
  EXPECT_EQ(spec[Figure::Boundary][0], (1 << 10) + 16 * (3 << 20));
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

TEST(Burst, besideOtherSchedules) {
  const std::vector<Spec> specs =
      right(with("burst", "[{count: 4, " + kTimes + "}]", "ranks: 4, batch: 16, microbatch_size: 16",
                 "variants: [{}, {schedule: 1f1b, pipeline: {microbatch_size: 4}}]\n"));
  EXPECT_TRUE(specs.at(0).burst);
  EXPECT_EQ(specs.at(0).microbatches.value, 1);
  EXPECT_FALSE(specs.at(1).burst);
  EXPECT_EQ(specs.at(1).microbatches.value, 4);
  EXPECT_EQ(specs.at(1)[Figure::Forward][0], 130 * kUs);
}

TEST(Burst, settings) {
  const Spec spec =
      right(with("1f1b"), {"schedule={name: burst}", "schedule.widths=2", "layers[0].forward.samples.4=90us"}).at(0);
  EXPECT_EQ(spec.burst.value().widths, (std::vector<int32_t>{2}));
  EXPECT_EQ(spec.layers->entries.at(0).bySamples.forward, (schedule::TimesBySamples{{1, 43 * kUs}, {4, 90 * kUs}}));
}

TEST(Burst, wrongParameters) {
  const auto of = [](const std::string &parameters) {
    return wrong(with(fmt::format("{{name: burst, {}}}", parameters)));
  };
  for (const auto &[parameters, message] : std::vector<std::pair<std::string, std::string>>{
           {"width: 4", "2:25: error: schedule.width: schedule burst has no such parameter; it has foreground, "
                        "amplification, widths, sync, choices"},
           {"foreground: 0%", "2:37: error: schedule.foreground: expected a percentage from 0.0001% to 100%, at most "
                              "four digits after the point, or a number from 0.000001 to 1, at most six, found '0%'"},
           {"foreground: 101%",
            "2:37: error: schedule.foreground: expected a percentage from 0.0001% to 100%, at most four digits after "
            "the point, or a number from 0.000001 to 1, at most six, found '101%'"},
           {"foreground: [90%]",
            "2:37: error: schedule.foreground: expected a percentage from 0.0001% to 100%, at most four digits after "
            "the point, or a number from 0.000001 to 1, at most six, found a list"},
           {"amplification: 0.5", "2:40: error: schedule.amplification: expected a number from 1 to 1000000, at most "
                                  "six digits after the point, found '0.5'"},
           {"amplification: 2, foreground: 90%", "2:43: error: schedule.foreground: give one of foreground, "
                                                 "amplification and widths\n2:25: note: amplification is given here"},
           {"widths: 0", "2:33: error: schedule.widths: expected an integer from 1 to 8, found '0'\n1:19: note: the "
                         "ranks are given here"},
           {"widths: 9", "2:33: error: schedule.widths: expected an integer from 1 to 8, found '9'\n1:19: note: the "
                         "ranks are given here"},
           {"widths: [8, 8]", "2:33: error: schedule.widths: expected 3 values, one for each layer, found 2"},
           {"widths: []", "2:33: error: schedule.widths: expected 3 values, one for each layer, found 0"},
           {"widths: [8, x, 4]", "2:37: error: schedule.widths[1]: expected an integer from 1 to 8, found 'x'\n1:19: "
                                 "note: the ranks are given here"},
           {"sync: ends", "2:31: error: schedule.sync: expected overlap, end, found 'ends'; did you mean 'end'?"},
           {"choices: [all]", "2:34: error: schedule.choices: expected powers, all, found a list"},
       })
    EXPECT_EQ(of(parameters), message) << parameters;
  EXPECT_EQ(
      wrong(with("{name: burst, widths: 6}", "[{" + kTimes + "}]", "ranks: 8, batch: 4")),
      "2:33: error: schedule.widths: expected an integer from 1 to 4, found '6'\n1:29: note: the batch is given here");
  EXPECT_EQ(wrong(with("burst", "[{" + kTimes + "}]", "ranks: 8, batch: 4", "costs: {collective: star}\n")),
            "4:21: error: costs.collective: expected ring, tree, found 'star'");
}

TEST(Burst, needsABatchOfOneMicrobatch) {
  const auto of = [](const std::string &pipeline) { return wrong(with("burst", "[{" + kTimes + "}]", pipeline)); };
  EXPECT_EQ(of("ranks: 8"),
            "1:11: error: pipeline.batch is missing: schedule burst shares the samples of a step out among ranks");
  EXPECT_EQ(of("ranks: 8, microbatches: 2"),
            "1:11: error: pipeline.batch is missing: schedule burst shares the samples of a step out among "
            "ranks\n1:36: error: pipeline.microbatches: expected 1 with schedule burst, found 2");
  EXPECT_EQ(of("ranks: 8, batch: 16, microbatch_size: 4"), "1:50: error: pipeline.microbatch_size: expected the batch "
                                                           "with schedule burst, which has one microbatch, found 4");
  EXPECT_EQ(of("ranks: 8, batch: 3000000000"),
            "1:29: error: pipeline.batch: expected at most 2147483647 samples with schedule burst, found 3000000000");
}

TEST(Burst, takesSoManyLayers) {
  const auto of = [](const std::string &parameters, int layers, const std::string &pipeline) {
    return wrong(with(fmt::format("{{name: burst{}}}", parameters), fmt::format("[{{count: {}, {}}}]", layers, kTimes),
                      pipeline));
  };
  const auto places = [](const char *message) {
    return fmt::format("3:9: error: layers: expected at most {}\n2:18: note: the schedule is given here", message);
  };
  EXPECT_EQ(
      of("", 257, "ranks: 8, batch: 16"),
      places("256 for an exact plan of 4 widths; schedule.amplification or schedule.widths take more, found 257"));
  EXPECT_EQ(of(", choices: all", 65, "ranks: 64, batch: 100"),
            places("64 for an exact plan of 64 widths; schedule.amplification or schedule.widths take more, found 65"));
  EXPECT_EQ(of(", amplification: 2", 4097, "ranks: 8, batch: 16"),
            places("4096 with schedule burst on 8 ranks, found 4097"));
  EXPECT_EQ(of(", widths: 4", 1025, "ranks: 1024, batch: 16"),
            places("1024 with schedule burst on 1024 ranks, found 1025"));
}

TEST(Burst, needsLayersBySamples) {
  EXPECT_EQ(wrong("pipeline: {ranks: 8, batch: 16}\nschedule: burst\ncosts: {forward: 1ms, backward: 1ms}\n"),
            "2:11: error: schedule: burst needs layers, each with times by local batch, found none");
  for (const auto &[layer, message] : std::vector<std::pair<std::string, std::string>>{
           {"forward: {samples: {1: 43us}}, backward: {fixed: 1us}",
            "3:52: error: layers[0].backward: expected times by local batch with schedule burst, such as {samples: {1: "
            "43us, 2: 74us}}, found a map\n2:11: note: the schedule is given here"},
           {"backward: {samples: {1: 43us}}, forward: 1us",
            "3:52: error: layers[0].forward: expected times by local batch with schedule burst, such as {samples: {1: "
            "43us, 2: 74us}}, found '1us'\n2:11: note: the schedule is given here"},
           {"forward: {samples: {1: 43us}}",
            "3:10: error: layers[0].backward is missing (or backward_input and backward_weight)"},
           {"forward: {samples: {1: 43us}}, backward_input: 1us, backward_weight: 1us",
            "3:10: error: layers[0].backward is missing: schedule burst runs whole backwards\n2:11: note: the schedule "
            "is given here"},
           {kTimes + ", boundary: 3MiB", "3:104: error: layers[0].boundary: expected {fixed, per_sample} with schedule "
                                         "burst, found '3MiB'\n2:11: note: the schedule is given here"},
           {kTimes + ", activation: 3MiB", "3:106: error: layers[0].activation: expected {fixed, per_sample} with "
                                           "schedule burst, found '3MiB'\n2:11: note: the schedule is given here"},
           {kTimes + ", weight_context: 3MiB",
            "3:110: error: layers[0].weight_context: expected {fixed, per_sample} with schedule burst, found "
            "'3MiB'\n2:11: note: the schedule is given here"},
           {kTimes + ", splits: [{name: a, units: 4, forward: 1us, backward: 1us}]",
            "3:102: error: layers[0].splits: expected none with schedule burst\n2:11: note: the schedule is given "
            "here"},
           {kTimes + ", count: 1048576}, {count: 1, " + kTimes,
            "3:9: error: layers: expected at most 4096 with schedule burst on 8 ranks, found 1048577\n2:11: note: the "
            "schedule "
            "is given here"},
       })
    EXPECT_EQ(wrong(with("burst", "[{" + layer + "}]")), message) << layer;
}

TEST(Burst, doesNotGoWith) {
  for (const auto &[more, message] : std::vector<std::pair<std::string, std::string>>{
           {"data_parallel: {degree: 2}", "4:25: error: data_parallel.degree: expected 1 with schedule burst, found "
                                          "'2'\n2:11: note: the schedule is given here"},
           {"tensor_parallel: {shards: 2}",
            "4:27: error: tensor_parallel.shards: expected layers with splits, which shards share, found none: give "
            "layers[].splits\n4:27: error: tensor_parallel.shards: expected 1 with schedule burst, found '2'\n2:11: "
            "note: the schedule is given here"},
           {"recompute: all", "4:12: error: recompute: expected none with schedule burst, found 'all'\n2:11: note: the "
                              "schedule is given here"},
           {"recompute: [0]", "4:12: error: recompute: expected none with schedule burst, found a list\n2:11: note: "
                              "the schedule is given here"},
           {"recompute: none", ""},
           {"recompute: []", ""},
           {"backward: split", "4:11: error: backward: expected fused with schedule burst, found 'split'\n2:11: note: "
                               "the schedule is given here"},
           {"backward: mixed", "4:11: error: backward: expected fused with schedule burst, found 'mixed'\n2:11: note: "
                               "the schedule is given here"},
           {"backward: fused", ""},
           {"weights: fill", "4:10: error: weights: expected ordered with schedule burst, found 'fill'\n2:11: note: "
                             "the schedule is given here"},
           {"costs: {optimizer: {time: 1ms, global_norm: true}}",
            "4:45: error: costs.optimizer.global_norm: expected false with schedule burst, found 'true'\n2:11: note: "
            "the "
            "schedule is given here"},
           {"costs: {optimizer: {time: 1ms, global_norm: false}}", ""},
           {"tensors: {boundary: 1B}", "4:21: error: tensors.boundary: expected {fixed, per_sample} with schedule "
                                       "burst, found '1B'\n2:11: note: the schedule is given here"},
           {"tensors: {boundary_gradient: 1B}", "4:30: error: tensors.boundary_gradient: expected none with schedule "
                                                "burst, whose gradients have the size of "
                                                "the boundary\n2:11: note: the schedule is given here"},
           {"tensors: {boundary: [1B, 2B]}",
            "4:21: error: tensors.boundary: expected layers[].boundary, which goes with any cut, found a list by "
            "stage\n2:11: note: schedule burst, which makes its own stages, is given here"},
           {"tensors: {static: [1B, 2B]}",
            "4:19: error: tensors.static: expected layers[].weights, gradients and optimizer_state, which goes with "
            "any cut, found a list by stage\n2:11: note: schedule burst, which makes its own stages, is given here"},
       })
    EXPECT_EQ(wrong(with("burst", "[{count: 3, " + kTimes + "}]", "ranks: 8, batch: 16", more + "\n")), message)
        << more;
  for (const auto &[shape, message] : std::vector<std::pair<std::string, std::string>>{
           {"stages_per_rank: 2", "1:50: error: pipeline.stages_per_rank: expected none with schedule burst, which "
                                  "makes its own stages\n2:11: note: the schedule is given here"},
           {"placement: v", "1:44: error: pipeline.placement: expected none with schedule burst, which makes its own "
                            "stages\n2:11: note: the schedule is given here"},
           {"cut: auto", "1:38: error: pipeline.cut: expected none with schedule burst, which makes its own "
                         "stages\n2:11: note: the schedule is given here"},
           {"slices: 2", "1:41: error: pipeline.slices: expected 1 with schedule burst, found '2'\n2:11: note: the "
                         "schedule is given here"},
       })
    EXPECT_EQ(wrong(with("burst", "[{count: 3, " + kTimes + "}]", "ranks: 8, batch: 16, " + shape)), message) << shape;
}

} // namespace
} // namespace pipec::spec::test
