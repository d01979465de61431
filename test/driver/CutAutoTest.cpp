// `cut: auto` against every cut, each compiled.
#include "compiler/driver/Compile.h"
#include "compiler/driver/Files.h"
#include "compiler/schedule/model/Random.h"
#include "test/driver/Agreement.h"
#include "test/schedule/cut/AllCuts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

namespace pipec::test {
namespace {

struct Model {
  std::string text;
  int layers = 0, stages = 0;
};

Model randomModel(schedule::Random &random, const std::string &schedule) {
  const auto upTo = [&](int most) { return int(random.below(size_t(most) + 1)); };
  Model model;
  model.stages = 2 + upTo(2);
  model.layers = model.stages + 1 + upTo(5);
  model.text = fmt::format("pipec: 1\npipeline: {{ranks: {}, microbatches: {}, cut: auto}}\nlayers:\n", model.stages,
                           4 * (1 + upTo(2)));
  for (int i = 0; i != model.layers; ++i)
    model.text += fmt::format("  - {{forward: {}ms, backward_input: {}ms, backward_weight: {}ms, activation: {}MiB, "
                              "weight_context: {}MiB, weights: {}MiB, optimizer: {}ms, optimizer_state: {}MiB, "
                              "boundary_gradient: {}MiB}}\n",
                              (1 + upTo(5)) * (upTo(4) == 0 ? 4 : 1), upTo(6), upTo(6), upTo(30), upTo(10), upTo(50),
                              upTo(4), upTo(99), 40 * (i % 3));
  model.text +=
      fmt::format("costs: {{link: {{latency: {}us, bandwidth: {}GB/s}}}}\ntensors: {{boundary: {}MiB}}\n"
                  "schedule: {}\ncommunicator: {}\n",
                  upTo(2) * 500, upTo(1) == 0 ? 1 : 50, upTo(30), schedule, upTo(1) == 0 ? "shared" : "per_edge");
  return model;
}

/// The plan; nothing where there is none.
std::optional<plan::Variant> planOf(const std::string &name, const std::string &set) {
  Compiled compiled;
  Failure failure;
  if (!compile(name, {set}, Stage::Plan, compiled, failure, Said::Nothing))
    return std::nullopt;
  return compiled.plan.variants.front();
}

std::string setOf(const std::vector<int64_t> &cut) { return fmt::format("pipeline.cut=[{}]", fmt::join(cut, ", ")); }

TEST(CutAuto, IsTheBestOfAllCuts) {
  schedule::Random random(7);
  const char *schedules[] = {"1f1b", "zb-h1", "gpipe", "zb-h2", "eager-1f1b"};
  for (int round = 0; round != rounds(15); ++round) {
    const std::string schedule = schedules[random.below(std::size(schedules))];
    Model model = randomModel(random, schedule);
    const std::string name = fmt::format("model {}.yaml", round);
    keep(name, model.text);
    const std::vector<std::vector<int64_t>> cuts = allCuts(model.layers, size_t(model.stages));
    if (random.below(2) == 0) { // a limit that many cuts are over
      plan::Bytes least = 0;
      for (const std::vector<int64_t> &each : cuts) {
        Compiled compiled;
        Failure failure;
        ASSERT_TRUE(compile(name, {setOf(each)}, Stage::Plan, compiled, failure, Said::Nothing));
        plan::Bytes most = 0;
        for (const simulate::PlaceResult &rank : compiled.walks.front().places)
          most = std::max(most, rank.peak);
        least = least == 0 ? most : std::min(least, most);
      }
      keep(name, model.text += fmt::format("memory: {{limit: {}B}}\n", least + least / 5));
    }
    std::optional<plan::Time> best;
    std::optional<plan::LeastTime> bound;
    for (const std::vector<int64_t> &each : cuts)
      if (const std::optional<plan::Variant> made = planOf(name, setOf(each))) {
        best = std::min(best.value_or(made->certificate.span), made->certificate.span);
        bound = std::min(bound.value_or(made->certificate.spanLowerBound), made->certificate.spanLowerBound);
        EXPECT_EQ(std::vector<int64_t>(made->cut.begin(), made->cut.end()), each);
        EXPECT_EQ(made->cutBound, plan::LeastTime());
      }
    const std::optional<plan::Variant> own = planOf(name, "pipeline.cut=auto");
    ASSERT_EQ(own.has_value(), best.has_value()) << model.text;
    if (!own)
      continue;
    EXPECT_EQ(own->certificate.span, *best) << model.text;
    EXPECT_LE(own->cutBound, *bound) << model.text;
    EXPECT_EQ(own->cut.size(), size_t(model.stages));
    EXPECT_EQ(planOf(name, setOf({own->cut.begin(), own->cut.end()}))->certificate.span, *best);
  }
}

/// Asked to stop before it begins, it has a plan all the same, and its bound is none that a better plan refutes.
TEST(CutAuto, StoppedHasAPlanAndABoundOfAll) {
  schedule::Random random(9);
  std::stop_source stop;
  stop.request_stop();
  for (int round = 0; round != rounds(6); ++round) {
    const std::string name = fmt::format("stopped {}.yaml", round);
    keep(name, randomModel(random, round % 2 ? "zb-h1" : "1f1b").text);
    for (const char *recompute : {"recompute=none", "recompute=auto"}) {
      const auto compiledWith = [&](std::stop_token token) {
        Compiled compiled;
        compiled.stop = std::move(token);
        Failure failure;
        EXPECT_TRUE(compile(name, {recompute, "memory.limit=1TiB"}, Stage::Plan, compiled, failure)) << failure.message;
        return compiled;
      };
      const Compiled whole = compiledWith({}), stopped = compiledWith(stop.get_token());
      EXPECT_FALSE(whole.isCutShort);
      EXPECT_TRUE(stopped.isCutShort);
      const plan::Variant &best = whole.plan.variants.front(), &other = stopped.plan.variants.front();
      EXPECT_LE(best.certificate.span, other.certificate.span);
      EXPECT_FALSE(other.cut.empty());
      EXPECT_GT(other.cutBound.picoseconds(), 0);
      EXPECT_LE(other.cutBound.picoseconds(), best.certificate.span);
    }
  }
}

/// An order that is searched for is not there at once.
TEST(CutAuto, StoppedHasNoOrder) {
  std::stop_source stop;
  stop.request_stop();
  const std::string name = "stopped.yaml";
  schedule::Random random(10);
  keep(name, randomModel(random, "auto").text);
  Compiled compiled;
  compiled.stop = stop.get_token();
  Failure failure;
  EXPECT_FALSE(compile(name, {}, Stage::Plan, compiled, failure, Said::Nothing));
  EXPECT_EQ(failure.code, Code::Input);
  EXPECT_EQ(failure.message,
            "the search was stopped before it found an order: give it more time, or name a schedule of "
            "the catalogue");
}

TEST(CutAuto, VariantsShareTheCut) {
  const std::string name = "variants of a cut.yaml";
  schedule::Random random(8);
  keep(name, randomModel(random, "1f1b").text + "variants: [{schedule: 1f1b}, {schedule: zb-h1}]\n");
  Compiled compiled;
  Failure failure;
  ASSERT_TRUE(compile(name, {}, Stage::Plan, compiled, failure)) << failure.message;
  ASSERT_EQ(compiled.plan.variants.size(), 2u);
  const plan::Variant &first = compiled.plan.variants[0], &second = compiled.plan.variants[1];
  EXPECT_FALSE(first.cut.empty());
  for (size_t rank = 0; rank != first.programs.size(); ++rank)
    EXPECT_EQ(first.programs[rank].staticBytes, second.programs[rank].staticBytes);
}

} // namespace
} // namespace pipec::test
