// variants in all forms: what they are laid over, names, places, what they share, and what is refused.
#include "test/spec/Expect.h"

#include <fmt/format.h>

namespace pipec::spec::test {
namespace {

/// Lines 1 to 3; `variants` stands on the fourth.
std::string base(const std::string &variants, const std::string &schedule = "{name: kfkb, k: 1}",
                 const std::string &pipeline = "ranks: 4, microbatches: 8",
                 const std::string &costs = "forward: 2ms, backward: 4ms") {
  return fmt::format("pipeline: {{{}}}\ncosts: {{{}}}\nschedule: {}\nvariants: {}\n", pipeline, costs, schedule,
                     variants);
}

TEST(Variants, none) {
  std::vector<Spec> specs = right("pipeline: {ranks: 4, microbatches: 8}\ncosts: {forward: 2ms, backward: 4ms}\n"
                                  "schedule: gpipe\n");
  ASSERT_EQ(specs.size(), 1u);
  EXPECT_EQ(specs[0].variantName, "gpipe");
}

TEST(Variants, valuesOfAParameter) {
  for (const char *schedule : {"{name: kfkb, k: 8}", "kfkb", "{name: kfkb}"}) {
    std::vector<Spec> specs = right(base("{k: [1, 2, 4]}", schedule));
    ASSERT_EQ(specs.size(), 3u);
    EXPECT_EQ(specs[0].variantName, "k=1");
    EXPECT_EQ(specs[2].variantName, "k=4");
    EXPECT_EQ(specs[2].schedule.name, "kfkb");
    const Parameter &k = specs[2].schedule.parameters.at("k");
    EXPECT_EQ(k.values, std::vector<std::string>{"4"});
    EXPECT_EQ(k.mark.line, 4);
    EXPECT_EQ(k.mark.column, 22);
    EXPECT_EQ(specs[2].schedule.mark.line, 3);
    EXPECT_EQ(specs[0].hash, specs[2].hash);
  }
}

TEST(Variants, partialSpecs) {
  std::vector<Spec> specs = right(base("\n"
                                       "- {}\n"
                                       "- {schedule: v-half}\n"
                                       "- {schedule: {k: 3}}\n"
                                       "- {schedule: {name: interleaved-1f1b}}\n"
                                       "- {costs: {forward: 7ms}, memory: {limit: 1GiB}}\n"
                                       "- {schedule: v-half, communicator: shared}"));
  ASSERT_EQ(specs.size(), 6u);
  std::vector<std::string> names;
  for (const Spec &spec : specs)
    names.push_back(spec.variantName);
  EXPECT_EQ(names, (std::vector<std::string>{"variant 0", "variant 1", "variant 2", "interleaved-1f1b", "variant 4",
                                             "variant 5"}));
  EXPECT_EQ(specs[0].schedule.parameters.at("k").values[0], "1");
  EXPECT_EQ(specs[1].schedule.name, "v-half");
  EXPECT_EQ(specs[1].schedule.mark.line, 6);
  EXPECT_EQ(specs[1].schedule.mark.column, 14);
  EXPECT_TRUE(specs[1].schedule.parameters.empty());
  EXPECT_EQ(specs[2].schedule.name, "kfkb");
  EXPECT_EQ(specs[2].schedule.parameters.at("k").values[0], "3");
  EXPECT_TRUE(specs[3].schedule.parameters.empty()) << "a named schedule does not inherit the parameters of another";
  EXPECT_EQ(specs[4][Figure::Forward][0], 7'000'000'000);
  EXPECT_EQ(specs[4][Figure::Forward].mark.line, 9);
  EXPECT_EQ(specs[4][Figure::Backward][0], 4'000'000'000) << "the rest of a map stays";
  EXPECT_EQ(specs[4].memoryLimit.mark.line, 9);
  EXPECT_EQ(specs[3].memoryLimit.value, 0);
  EXPECT_EQ(specs[5].communicator.value, Communicator::Shared);
}

TEST(Variants, ringsAreForAnyTimingUnlessGiven) {
  EXPECT_EQ(right(base("{k: [1, 2]}"))[1].rings.value, Rings::Any);
  EXPECT_EQ(right(base("{k: [1, 2]}") + "rings: predicted\n")[1].rings.value, Rings::Predicted);
  const std::vector<Spec> specs = right(base("[{rings: predicted}, {schedule: {k: 2}}]"));
  EXPECT_EQ(specs[0].rings.value, Rings::Predicted);
  EXPECT_EQ(specs[1].rings.value, Rings::Any);
}

TEST(Variants, namesSayTheSchedule) {
  std::vector<Spec> specs =
      right(base("[{schedule: v-half}, {schedule: {name: kfkb, k: 2}}, {schedule: {name: kfkb, k: 3}}]"));
  EXPECT_EQ(specs.at(0).variantName, "v-half");
  EXPECT_EQ(specs.at(1).variantName, "kfkb k=2");
  EXPECT_EQ(specs.at(2).variantName, "kfkb k=3");
  specs = right(base("[{schedule: variant 1}, {memory: {limit: 1GiB}}]"));
  EXPECT_EQ(specs.at(0).variantName, "variant 0");
  EXPECT_EQ(specs.at(1).variantName, "variant 1");
}

// A plan holds names of at most 256 bytes without control characters.
TEST(Variants, whatAPlanCannotHoldIsNoName) {
  std::string list = "1";
  for (int i = 0; i < 200; ++i)
    list += ", 1";
  const std::vector<Spec> specs = right(base(fmt::format("[{{schedule: {{name: slack, per_link: [{}]}}}}, "
                                                         "{{schedule: {{name: order, file: \"\\e[31m\"}}}}]",
                                                         list)));
  EXPECT_EQ(specs.at(0).variantName, "variant 0");
  EXPECT_EQ(specs.at(1).variantName, "variant 1");
}

TEST(Variants, ofAnotherMicrobatchSize) {
  const std::string costs = "forward: {fixed: 1ms, per_sample: 2ms}, backward: {per_sample: 1ms}, optimizer: 5ms";
  const std::string pipeline = "ranks: 4, batch: 64, microbatch_size: 4";
  std::vector<Spec> specs = right(base("[{}, {pipeline: {microbatch_size: 8}}]", "1f1b", pipeline, costs));
  EXPECT_EQ(specs.at(0).microbatches.value, 16);
  EXPECT_EQ(specs.at(1).microbatches.value, 8);
  EXPECT_EQ(specs.at(0)[Figure::Forward][0], 9'000'000'000);
  EXPECT_EQ(specs.at(1)[Figure::Forward][0], 17'000'000'000);
  EXPECT_EQ(wrong(base("[{}, {pipeline: {microbatch_size: 8}}]", "1f1b", pipeline,
                       "forward: [1ms, {fixed: 1ms}, {fixed: 1ms}, {fixed: 1ms}], backward: 4ms")),
            "2:19: error: costs.forward: expected {fixed, per_sample}, since variants differ in the size of a "
            "microbatch\n4:45: note: another size is given here\n"
            "2:77: error: costs.backward: expected {fixed, per_sample}, since variants differ in the size of a "
            "microbatch\n4:45: note: another size is given here");
  EXPECT_EQ(wrong(base("[{}, {pipeline: {microbatch_size: 8}}]")),
            "4:45: error: pipeline: give either microbatches, or batch and microbatch_size\n"
            "1:36: note: microbatches is given here\n4:16: note: in variant 'variant 1'");
  EXPECT_EQ(wrong(base("[{}, {pipeline: {microbatch_size: 7}}]", "1f1b", pipeline, costs)),
            "1:29: error: pipeline.batch: expected 1 to 1048576 times the microbatch_size 7, found 64\n"
            "4:16: note: in variant 'variant 1'");
}

TEST(Variants, share) {
  for (const auto &[variants, message] : std::vector<std::pair<std::string, std::string>>{
           {"[{}, {pipeline: {ranks: 4}}]", ""},
           {"[{}, {pipeline: {ranks: 8}}]",
            "4:35: error: pipeline.ranks: expected the same in all variants, found another\n"
            "1:19: note: the first variant's is given here"},
           {"[{}, {pipeline: {stages_per_rank: 1}}]",
            "4:45: error: pipeline.stages_per_rank: expected the same in all variants, found none in the first"},
           {"[{pipeline: {placement: loop}}, {}]",
            "4:35: error: pipeline.placement: expected the same in all variants, found it in the first alone"},
           {"[{pipeline: {placement: loop}}, {pipeline: {placement: bidirectional}}]",
            "4:66: error: pipeline.placement: expected the same in all variants, found another\n"
            "4:35: note: the first variant's is given here"},
           {"[{pipeline: {placement: [[0], [1], [2], [3]]}}, {pipeline: {placement: [[0], [1], [2], [3]]}}]", ""},
           {"[{pipeline: {placement: [[0], [1], [2], [3]]}}, {pipeline: {placement: [[0], [1], [3], [2]]}}]",
            "4:82: error: pipeline.placement: expected the same in all variants, found another\n"
            "4:35: note: the first variant's is given here"},
           {"[{provider: {a: [1]}}, {provider: {a: [1]}}]", ""},
           {"[{provider: {a: [1]}}, {provider: {a: [2]}}]",
            "4:45: error: provider: expected the same in all variants, found another\n"
            "4:23: note: the first variant's is given here"},
       })
    EXPECT_EQ(wrong(base(variants)), message) << variants;
}

TEST(Variants, shareLayers) {
  auto with = [](const std::string &second) {
    return wrong("pipeline: {ranks: 4, microbatches: 8}\nschedule: 1f1b\n"
                 "layers: [{count: 4, forward: 1ms, backward: 1ms}, {count: 4, forward: 1ms, backward: 1ms}]\n"
                 "variants:\n- {}\n- {layers: " +
                 second + "}\n");
  };
  EXPECT_EQ(with("[{count: 4, forward: 1000us, backward: 1ms}, {count: 4, forward: 1ms, backward: 1ms}]"), "");
  for (const char *other : {"[{count: 4, forward: 2ms, backward: 1ms}, {count: 4, forward: 1ms, backward: 1ms}]",
                            "[{count: 8, forward: 1ms, backward: 1ms}]",
                            "[{count: 4, forward: 1ms, backward: 1ms, activation: 1B}, {count: 4, forward: 1ms, "
                            "backward: 1ms}]"})
    EXPECT_EQ(with(other), "6:12: error: layers: expected the same in all variants, found another\n"
                           "3:9: note: the first variant's is given here")
        << other;
}

TEST(Variants, refused) {
  for (const auto &[variants, message] : std::vector<std::pair<std::string, std::string>>{
           {"3", "4:11: error: variants: expected a list of partial specs, or a map of one parameter of the schedule, "
                 "found '3'"},
           {"[]", "4:11: error: variants: expected 1 to 256 variants, found 0"},
           {"{}", "4:11: error: variants: expected one parameter of the schedule, found a map"},
           {"{k: [1], j: [1]}", "4:11: error: variants: expected one parameter of the schedule, found a map"},
           {"{k: 2}", "4:15: error: variants.k: expected a list of values, one for each variant, found '2'"},
           {"{k: []}", "4:15: error: variants.k: expected 1 to 256 variants, found 0"},
           {"{k: [1, [2]]}", "4:19: error: variants.k[1]: expected a single value, found a list"},
           {"{k: [1, 2, 1]}", "4:22: error: variants.k[2]: '1' is given twice\n4:16: note: first given here"},
           {"{name: [gpipe, 1f1b]}",
            "4:12: error: variants.name: expected a parameter of the schedule; for other schedules give a list such as "
            "[{schedule: 1f1b}, {schedule: gpipe}]"},
           {"[v-half]", "4:12: error: variants[0]: expected a map, found 'v-half'"},
           {"[{variants: {k: [1]}}]", "4:13: error: variants[0].variants: a variant has no variants of its own"},
           {"[{shedule: v-half}]", "4:13: error: variants[0].shedule: unknown key; did you mean 'schedule'?"},
           {"[{}, {pipeline: {microbatches: 0}}]",
            "4:42: error: variants[1].pipeline.microbatches: expected an integer from 1 to 1048576, found '0'"},
           {"[{costs: {backward_input: 1ms}}]",
            "4:37: error: costs.backward_weight is missing: backward_input and backward_weight go together\n"
            "4:12: note: in variant 'variant 0'"},
           {"[{costs: {optimizer: {global_norm: true}}}]",
            "4:32: error: costs.optimizer.time is missing\n4:12: note: in variant 'variant 0'"},
       })
    EXPECT_EQ(wrong(base(variants)), message) << variants;
  EXPECT_EQ(wrong(base("{k: [1, 2]}", "[a]")),
            "3:11: error: schedule: expected a name, or a map with a name, found a list");
  EXPECT_EQ(wrong("pipeline: {ranks: 1, microbatches: 1}\ncosts: {forward: 1ms, backward: 1ms}\n"
                  "variants: [{schedule: gpipe}]\n"),
            "1:1: error: schedule is missing");
}

TEST(Variants, anErrorOfAllIsSaidOnce) {
  EXPECT_EQ(wrong(base("{k: [1, 2, 4]}", "kfkb", "ranks: 4, batch: 8")),
            "1:29: error: pipeline.microbatch_size is missing: batch and microbatch_size go together");
}

TEST(Variants, settings) {
  const std::string text = base("{k: [1, 2]}");
  EXPECT_EQ(right(text, {"variants={k: [3]}"}).at(0).variantName, "k=3");
  EXPECT_EQ(right(text, {"schedule.k=7"}).at(1).schedule.parameters.at("k").values[0], "2");
  EXPECT_EQ(wrong(text, {"variants=[{memory: {limit: 0}}]"}),
            "--set variants=[{memory: {limit: 0}}]:1:19: error: variants[0].memory.limit: expected a size with a unit "
            "(B, kB, MB, GB, TB, KiB, MiB, GiB, TiB), found '0'");
}

TEST(Variants, limits) {
  auto values = [](int count) {
    std::string list = "{k: [0";
    for (int i = 1; i < count; ++i)
      list += fmt::format(", {}", i);
    return list + "]}";
  };
  EXPECT_EQ(right(base(values(256))).size(), 256u);
  EXPECT_EQ(wrong(base(values(257))), "4:15: error: variants.k: expected 1 to 256 variants, found 257");
  // A large spec often: neither values nor stages without end.
  const std::string most = "error: variants: more than 4194304 values and stages in all, counting what each variant "
                           "repeats";
  EXPECT_TRUE(wrong(base(values(256), "kfkb", "ranks: 65536, microbatches: 1")).ends_with(most));
  std::string list = "ranks: 4, microbatches: 1}\nprovider: {a: [1";
  for (int i = 0; i < 100'000; ++i)
    list += ",1";
  EXPECT_TRUE(wrong(base(values(256), "kfkb", list + "]")).ends_with(most));
}

} // namespace
} // namespace pipec::spec::test
