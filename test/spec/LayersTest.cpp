// layers and cut: sums worked out by hand, and what is refused.
#include "runtime/plan/Limits.h"
#include "test/spec/Expect.h"

#include <fmt/format.h>

namespace pipec::spec::test {
namespace {

constexpr int64_t kMs = 1'000'000'000;

/// Four ranks; the first line is the pipeline's, the layers begin on the third.
std::string model(const std::string &layers, const std::string &pipeline = "ranks: 4, microbatches: 8") {
  return fmt::format("pipeline: {{{}}}\nschedule: 1f1b\n{}\n", pipeline, layers);
}

const std::string kTen = "layers:\n"
                         "- {name: first, forward: 1ms, backward_input: 2ms, backward_weight: 3ms, activation: 1kB,\n"
                         "   weight_context: 2kB, weights: 3kB, gradients: 4kB, boundary: 5kB}\n"
                         "- {count: 8, forward: 10ms, backward_input: 20ms, backward_weight: 30ms, activation: 10kB,\n"
                         "   weight_context: 20kB, weights: 30kB, gradients: 40kB}\n"
                         "- {forward: 100ms, backward_input: 200ms, backward_weight: 300ms, activation: 100kB,\n"
                         "   weight_context: 200kB, weights: 300kB, gradients: 400kB}\n";

TEST(Layers, sumsByCut) {
  Spec spec = right(model(kTen + "tensors: {boundary: 7kB, static: [1kB, 2kB, 3kB, 4kB], workspace: 9kB}\n"
                                 "costs: {optimizer: 6ms, link: {latency: 1us}}\n",
                          "ranks: 4, microbatches: 8, cut: [1, 3, 4, 2]"))
                  .at(0);
  EXPECT_EQ(spec[Figure::Forward].values, (std::vector<int64_t>{1 * kMs, 30 * kMs, 40 * kMs, 110 * kMs}));
  EXPECT_EQ(spec[Figure::BackwardInput].values, (std::vector<int64_t>{2 * kMs, 60 * kMs, 80 * kMs, 220 * kMs}));
  EXPECT_EQ(spec[Figure::BackwardWeight].values, (std::vector<int64_t>{3 * kMs, 90 * kMs, 120 * kMs, 330 * kMs}));
  EXPECT_FALSE(spec.has(Figure::Backward));
  EXPECT_EQ(spec[Figure::Activation].values, (std::vector<int64_t>{1'000, 30'000, 40'000, 110'000}));
  EXPECT_EQ(spec[Figure::WeightContext].values, (std::vector<int64_t>{2'000, 60'000, 80'000, 220'000}));
  EXPECT_EQ(spec[Figure::Gradients].values, (std::vector<int64_t>{4'000, 120'000, 160'000, 440'000}));
  // tensors.static, the weights and the gradients.
  EXPECT_EQ(spec[Figure::Static].values, (std::vector<int64_t>{8'000, 212'000, 283'000, 774'000}));
  // The layer's own where a stage ends with it, otherwise tensors.boundary.
  EXPECT_EQ(spec[Figure::Boundary].values, (std::vector<int64_t>{5'000, 7'000, 7'000, 7'000}));
  EXPECT_EQ(spec.workspace.value, 9'000);
  EXPECT_EQ(spec[Figure::Optimizer][3], 6 * kMs);
  EXPECT_EQ(spec.link.latency, 1'000'000);
  // A stage is blamed where its first layer stands.
  EXPECT_EQ(spec[Figure::Forward].markOf(0).line, 4);
  EXPECT_EQ(spec[Figure::Forward].markOf(1).line, 6);
  EXPECT_EQ(spec[Figure::Forward].markOf(3).line, 6);
}

TEST(Layers, gradientsOfBoundaries) {
  const auto gradients = [](const std::string &tensors) {
    Spec spec = right(model("layers:\n"
                            "- {forward: 1ms, backward: 2ms, boundary: 5kB, boundary_gradient: 1kB}\n"
                            "- {forward: 1ms, backward: 2ms, boundary: 6kB, count: 2}\n"
                            "- {forward: 1ms, backward: 2ms, boundary_gradient: 0B}\n" +
                                tensors,
                            "ranks: 4, microbatches: 8, cut: [1, 1, 1, 1]"))
                    .at(0);
    return spec[Figure::BoundaryGradient].values;
  };
  // The layer's own, else tensors.boundary_gradient, else the boundary.
  EXPECT_EQ(gradients(""), (std::vector<int64_t>{1'000, 6'000, 6'000, 0}));
  EXPECT_EQ(gradients("tensors: {boundary: 7kB}\n"), (std::vector<int64_t>{1'000, 6'000, 6'000, 0}));
  EXPECT_EQ(gradients("tensors: {boundary_gradient: [2kB, 3kB, 4kB, 5kB]}\n"),
            (std::vector<int64_t>{1'000, 3'000, 4'000, 0}));
  EXPECT_FALSE(right(model(kTen, "ranks: 2, microbatches: 8")).at(0).has(Figure::BoundaryGradient));
  EXPECT_EQ(
      wrong(model("layers: [{count: 4, forward: 1ms, backward: 2ms}]\ntensors: {boundary_gradient: [1B, 2B]}")),
      "4:30: error: tensors.boundary_gradient: expected 4 values, one for each stage (stages_per_rank is 1 unless "
      "given), found 2");
}

TEST(Layers, equallyWithoutACut) {
  Spec spec = right(model("layers: [{count: 8, forward: 2ms, backward: 4ms}]")).at(0);
  EXPECT_EQ(spec[Figure::Forward].values, std::vector<int64_t>(4, 4 * kMs));
  EXPECT_EQ(spec[Figure::Backward].values, std::vector<int64_t>(4, 8 * kMs));
  EXPECT_FALSE(spec.has(Figure::BackwardInput));
  EXPECT_EQ(spec[Figure::Static][3], 0);
}

TEST(Layers, asManyStagesAsTheScheduleSays) {
  std::vector<Spec> specs;
  const std::string text = model("layers: [{count: 8, forward: 2ms, backward: 4ms, weights: 1B}]");
  std::vector<Diagnostic> diagnostics;
  ASSERT_TRUE(readSpecsText(text, "spec.yaml", {}, specs, diagnostics));
  Spec &spec = specs.at(0);
  EXPECT_FALSE(spec.stagesGiven);
  EXPECT_TRUE(spec.has(Figure::Backward)) << "its form is known before the stages are";
  for (int32_t stages : {8, 4, 2, 8}) { // each from the start
    ASSERT_TRUE(setStages(spec, stages, diagnostics));
    EXPECT_EQ(spec.stages, stages);
    EXPECT_EQ(spec[Figure::Forward].values, std::vector<int64_t>(size_t(stages), 16 / stages * kMs));
    EXPECT_EQ(spec[Figure::Static].values, std::vector<int64_t>(size_t(stages), 8 / stages));
  }
  EXPECT_FALSE(setStages(spec, 0, diagnostics));
  EXPECT_FALSE(setStages(spec, int32_t(limits::kStages) + 1, diagnostics));
  EXPECT_EQ(toString(diagnostics.at(1)),
            "spec.yaml:2:11: error: schedule: expected 1 to 1048576 stages in all, found 1048577");
}

TEST(Layers, listsByStageAsTheScheduleSays) {
  const std::string text = "pipeline: {ranks: 2, microbatches: 8}\nschedule: zb-v\n"
                           "costs: {forward: [1ms, 2ms, 3ms, 4ms], backward: 4ms}\n";
  EXPECT_EQ(right(text, {}, 4).at(0)[Figure::Forward][3], 4 * kMs);
  EXPECT_EQ(wrong(text, {}, 2), "3:18: error: costs.forward: expected 2 values, one for each stage (stages_per_rank is "
                                "1 unless given), found 4");
  EXPECT_EQ(wrong(text, {}, 6), "3:18: error: costs.forward: expected 6 values, one for each stage, found 4");
}

TEST(Layers, ofSamples) {
  Spec spec = right(model("layers: [{count: 4, forward: {fixed: 1ms, per_sample: 2ms}, backward: {per_sample: 1ms},\n"
                          "          activation: {per_sample: 3B}}]",
                          "ranks: 2, batch: 32, microbatch_size: 4"))
                  .at(0);
  EXPECT_EQ(spec[Figure::Forward][1], 18 * kMs);
  EXPECT_EQ(spec[Figure::Backward][1], 8 * kMs);
  EXPECT_EQ(spec[Figure::Activation][0], 24);
}

TEST(Layers, emptyListsAreNone) {
  const Spec spec =
      right(model("layers: [{count: 4, forward: 1ms, backward: 1ms, gradients: []}]\nrecompute: []")).at(0);
  EXPECT_TRUE(spec.layers->entries[0].tensors.empty());
  EXPECT_EQ(spec.layers->entries[0].figures[Figure::Gradients], 0);
  EXPECT_EQ(spec[Figure::Gradients].values, std::vector<int64_t>(4, 0));
  EXPECT_FALSE(spec.recomputed.all);
  EXPECT_FALSE(spec.recomputed.isSpelledOut());
  EXPECT_TRUE(spec.recomputed.stages.value.empty());
}

TEST(Layers, areFewEnoughToBeNumbered) {
  std::string many = "layers: [&a {count: 1048576, forward: 1ps, backward: 1ps}";
  for (int i = 1; i != 2048; ++i)
    many += ", *a";
  EXPECT_EQ(wrong(model(many + "]")), "3:9: error: layers: expected at most 2147483647 in all, found 2147483648");
}

TEST(Layers, refused) {
  const std::string each = "forward: 2ms, backward: 4ms";
  for (const auto &[layers, message] : std::vector<std::pair<std::string, std::string>>{
           {"layers: []", "3:9: error: layers: expected at least one layer, found an empty list"},
           {"layers: {}", "3:9: error: layers: expected a list of maps, found a map"},
           {"layers: [1]", "3:10: error: layers[0]: expected a map, found '1'"},
           {"layers: [{backward: 1ms}]", "3:10: error: layers[0].forward is missing"},
           {"layers: [{forward: 1ms}]",
            "3:10: error: layers[0].backward is missing (or backward_input and backward_weight)"},
           {"layers: [{forward: 1ms, backward_input: 1ms}]",
            "3:41: error: layers[0].backward_weight is missing: backward_input and backward_weight go together"},
           {"layers: [{" + each + ", backward_input: 1ms}]",
            "3:56: error: layers[0].backward_weight is missing: backward_input and backward_weight go together"},
           {"layers: [{" + each + ", backward_input: 1ms, backward_weight: 1ms}, {" + each + "}]",
            "3:84: error: layers[1]: expected backward, backward_input and backward_weight as in layers[0]\n"
            "3:10: note: layers[0] is given here"},
           {"layers: [{" + each + "}, {forward: 1ms, backward_input: 1ms, backward_weight: 1ms}]",
            "3:41: error: layers[1]: expected backward as in layers[0]\n3:10: note: layers[0] is given here"},
           {"layers: [{" + each + ", forwad: 1ms}]",
            "3:40: error: layers[0].forwad: unknown key; did you mean 'forward'?"},
           {"layers: [{" + each + ", count: 0}]",
            "3:47: error: layers[0].count: expected an integer from 1 to 1048576, found '0'"},
           {"layers: [{" + each + ", count: 1000000000000}]",
            "3:47: error: layers[0].count: expected an integer from 1 to 1048576, found '1000000000000'"},
           {"layers: [{" + each + ", weights: {per_sample: 1B}}]",
            "3:49: error: layers[0].weights: expected a size with a unit (B, kB, MB, GB, TB, KiB, MiB, GiB, TiB), "
            "found a map"},
           {"layers: [{backward: 1ms, forward: {per_sample: 1ms}, count: 4}]",
            "3:35: error: layers[0].forward: fixed and per_sample need pipeline.batch and pipeline.microbatch_size, "
            "which are missing"},
           {"layers: [{" + each + ", count: 3}]",
            "3:9: error: layers: expected at least one for each of the 4 stages, found 3"},
           {"layers: [{" + each + ", count: 30}]",
            "3:9: error: layers: 30 layers do not divide equally among 4 stages; say how many go to each with "
            "pipeline.cut, for example [7, 8, 8, 7]; or auto, which chooses"},
           {"layers: [{" + each + ", count: 4}]\ncosts: {forward: 1ms}",
            "4:18: error: costs.forward: give either this, or layers\n3:9: note: layers is given here"},
           {"layers: [{" + each + ", count: 4}]\ntensors: {activation: 1B, gradients: 1B}",
            "4:23: error: tensors.activation: give either this, or layers\n3:9: note: layers is given here\n"
            "4:38: error: tensors.gradients: give either this, or layers\n3:9: note: layers is given here"},
           {"layers: [{" + each + ", count: 4}]\ntensors: {static: [1B, 2B]}",
            "4:19: error: tensors.static: expected 4 values, one for each stage (stages_per_rank is 1 unless given), "
            "found 2"},
       })
    EXPECT_EQ(wrong(model(layers)), message) << layers;
}

TEST(Layers, cutRefused) {
  const std::string layers = "layers: [{count: 30, forward: 2ms, backward: 4ms}]";
  auto with = [&](const std::string &cut) { return wrong(model(layers, "ranks: 4, microbatches: 8, cut: " + cut)); };
  EXPECT_EQ(with("[7, 8, 8, 7]"), "");
  EXPECT_EQ(with("[15, 15]"), "1:44: error: pipeline.cut: expected 4 values, one for each stage, found 2");
  EXPECT_EQ(with("[7, 8, 8, 8]"), "1:44: error: pipeline.cut: expected 30 layers in all, found 31\n"
                                  "3:9: note: layers is given here");
  EXPECT_EQ(wrong(model(layers, "ranks: 20, microbatches: 8")),
            "3:9: error: layers: 30 layers do not divide equally among 20 stages; say how many go to each with "
            "pipeline.cut, for example 10 stages of 2 and 10 of 1; or auto, which chooses");
}

TEST(Layers, cutAuto) {
  EXPECT_EQ(evenCut(10, 4), (std::vector<int64_t>{2, 3, 3, 2}));
  const std::string pipeline = "ranks: 4, microbatches: 8, cut: auto",
                    layers = "layers: [{count: 30, forward: 2ms, backward: 4ms, optimizer: 1ms, optimizer_state: 3B}]";
  // Until a cut is chosen, as equal as can be.
  const Spec spec = right(model(layers + "\ncosts: {optimizer: 5ms}\ntensors: {static: 7B}", pipeline)).at(0);
  EXPECT_TRUE(spec.layers->choosesCut);
  EXPECT_EQ(spec[Figure::Forward].values, (std::vector<int64_t>{14 * kMs, 16 * kMs, 16 * kMs, 14 * kMs}));
  EXPECT_EQ(spec[Figure::Optimizer].values, (std::vector<int64_t>{12 * kMs, 13 * kMs, 13 * kMs, 12 * kMs}));
  EXPECT_EQ(spec[Figure::Static].values, (std::vector<int64_t>{28, 31, 31, 28}));
  const auto beside = [&](const std::string &more) { return wrong(model(layers + "\n" + more, pipeline)); };
  const std::string given = "1:44: note: pipeline.cut: auto is given here";
  EXPECT_EQ(
      beside("tensors: {static: [1B, 2B, 3B, 4B]}"),
      "4:19: error: tensors.static: expected layers[].weights, gradients and optimizer_state, which goes with any "
      "cut, found a list by stage\n" +
          given);
  EXPECT_EQ(
      beside("costs: {optimizer: [1ms, 1ms, 1ms, 1ms]}"),
      "4:20: error: costs.optimizer: expected layers[].optimizer, which goes with any cut, found a list by stage\n" +
          given);
  EXPECT_EQ(beside("costs: {optimizer: {time: [1ms, 1ms, 1ms, 1ms], global_norm: true}}"),
            "4:27: error: costs.optimizer.time: expected layers[].optimizer, which goes with any cut, found a list by "
            "stage\n" +
                given);
  EXPECT_EQ(
      beside("tensors: {boundary: [1B, 1B, 1B, 1B]}"),
      "4:21: error: tensors.boundary: expected layers[].boundary, which goes with any cut, found a list by stage\n" +
          given);
  EXPECT_EQ(
      beside("tensors: {boundary_gradient: [1B, 1B, 1B, 1B]}"),
      "4:30: error: tensors.boundary_gradient: expected layers[].boundary_gradient, which goes with any cut, found a "
      "list by stage\n" +
          given);
  EXPECT_EQ(
      beside("costs: {overlapped: [6ms, 6ms, 6ms, 6ms]}"),
      "4:21: error: costs.overlapped: expected one value for all stages, which goes with any cut, found a list by "
      "stage\n" +
          given);
  EXPECT_EQ(wrong(model("costs: {forward: 1ms, backward: 1ms}", pipeline)),
            "1:44: error: pipeline.cut: expected layers to cut, found none");
  EXPECT_EQ(wrong(model("layers: [{count: 3, forward: 2ms, backward: 4ms}]", pipeline)),
            "3:9: error: layers: expected at least one for each of the 4 stages, found 3");
}

TEST(Layers, beyondTheLimits) {
  auto with = [](const std::string &more, const std::string &pipeline = "ranks: 1, microbatches: 1") {
    return wrong(model("layers: [{count: 1048576, " + more + "}]", pipeline));
  };
  EXPECT_EQ(with("forward: 999999s, backward: 1ms"),
            "3:10: error: layers: forward of the 1048576 layers of stage 0 comes to more than 10^18 ps");
  EXPECT_EQ(with("forward: 1ms, backward: 1ms, weights: 1TiB, gradients: 0B"), "");
  EXPECT_EQ(
      with("forward: 1ms, backward: 1ms, weights: 1TiB, gradients: 1B"),
      "3:10: error: layers: weights, gradients, optimizer_state and tensors.static of stage 0 come to more than 2^60 "
      "bytes");
  EXPECT_EQ(wrong(model("layers: [{forward: 1ms, backward: 1ms, optimizer: 999999s}]\ncosts: {optimizer: 2s}",
                        "ranks: 1, microbatches: 1")),
            "3:10: error: layers: optimizer and costs.optimizer of stage 0 come to more than 10^18 ps");
  EXPECT_EQ(with("forward: 1ms, backward: 1ms, activation: 2TiB"),
            "3:10: error: layers: activation of the 1048576 layers of stage 0 comes to more than 2^60 bytes");
  EXPECT_EQ(with("forward: 1ms, backward: 0.5s", "ranks: 1, microbatches: 1024"),
            "3:10: error: costs: stage 0 works longer than 10^18 ps in a step of 1024 microbatches");
  // As many stages as there may be, each of one layer.
  EXPECT_EQ(with("forward: 1ms, backward: 1ms", "ranks: 65536, stages_per_rank: 16, microbatches: 1"), "");
}

} // namespace
} // namespace pipec::spec::test
