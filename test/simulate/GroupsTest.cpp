// Stages on several ranks: a step worked out by hand, and collectives of groups in an order that stops.
#include "runtime/plan/Disassemble.h"
#include "runtime/plan/Load.h"
#include "runtime/simulate/Simulate.h"
#include "test/plan/MakeBurst.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

using namespace pipec;
using plan::Kind;
using plan::Payload;
using plan::Time;
using plan::test::Burst;
using plan::test::makeBurst;

namespace {

constexpr Time kTenth = 100'000'000; // 0.1 ms

struct Row {
  std::string what;
  Time start, end; // in tenths of a millisecond
  bool operator==(const Row &) const = default;
};
std::ostream &operator<<(std::ostream &out, const Row &row) {
  return out << row.what << " " << row.start << " " << row.end;
}

std::vector<Row> byTime(std::vector<Row> rows) {
  std::sort(rows.begin(), rows.end(), [](const Row &one, const Row &other) {
    return std::tie(one.start, one.what) < std::tie(other.start, other.what);
  });
  return rows;
}

/// What a rank executes in a step, by time.
std::vector<Row> rowsOf(const plan::Variant &variant, int32_t rank, int64_t step) {
  std::vector<Row> rows;
  simulate::Options options;
  options.steps = step + 1;
  options.observe = [&](const simulate::Event &event) {
    if (event.rank != rank || event.step != step)
      return;
    std::string what = name(event.operation->kind);
    if (event.operation->kind == Kind::Reshard)
      what += std::string(" ") + name(event.operation->of);
    rows.push_back({what + " " + std::to_string(event.operation->stage), event.start / kTenth, event.end / kTenth});
  };
  simulate::Result result;
  const Status status = simulate::simulate(variant, options, result);
  EXPECT_TRUE(status.ok()) << status.message;
  return byTime(std::move(rows));
}

std::vector<Row> later(std::vector<Row> rows, Time by) {
  for (Row &row : rows)
    row.start += by, row.end += by;
  return byTime(std::move(rows));
}

// Nine samples on four ranks, then two, then one: 3, 2, 2 and 2 of them, 5 and 4, 9. A forward takes a millisecond a
// sample, a backward two; 4 to 2 moves two samples to or from a rank, 2 to 1 four, half a millisecond each.
TEST(Groups, TimesOfAStep) {
  const plan::Variant variant = makeBurst().variants[0];
  const std::vector<Row> first = {
      {"F 0", 0, 30},
      {"reshard F 0", 30, 41},
      {"F 1", 41, 91},
      {"reshard F 1", 91, 112},
      {"F 2", 112, 202},
      {"BW 2", 202, 382},
      {"reshard B 2", 382, 403},
      {"BW 1", 403, 503},
      {"reshard B 1", 503, 514},
      {"BW 0", 514, 574},
      {"all_reduce 1", 514, 544},
      {"all_reduce 0", 574, 604},
      {"optimizer 2", 574, 581},
      {"optimizer 1", 581, 588},
      {"optimizer 0", 604, 611},
  };
  // All begin a reshard when the last member of its group has come.
  const std::vector<Row> second = {
      {"F 0", 0, 20},
      {"reshard F 0", 30, 41},
      {"F 1", 41, 81},
      {"reshard F 1", 91, 112},
      {"reshard B 2", 382, 403},
      {"BW 1", 403, 483},
      {"reshard B 1", 503, 514},
      {"BW 0", 514, 554},
      {"all_reduce 1", 514, 544},
      {"all_reduce 0", 574, 604},
      {"optimizer 1", 554, 561},
      {"optimizer 0", 604, 611},
  };
  const std::vector<Row> others = {
      {"F 0", 0, 20},     {"reshard F 0", 30, 41},    {"reshard B 1", 503, 514},
      {"BW 0", 514, 554}, {"all_reduce 0", 574, 604}, {"optimizer 0", 604, 611},
  };
  for (const int64_t step : {0, 1}) { // all end at once, so the next step is like this one
    SCOPED_TRACE(step);
    EXPECT_EQ(rowsOf(variant, 0, step), later(first, 611 * step));
    EXPECT_EQ(rowsOf(variant, 1, step), later(second, 611 * step));
    for (const int32_t rank : {2, 3})
      EXPECT_EQ(rowsOf(variant, rank, step), later(others, 611 * step));
  }
  Time span = 0;
  simulate::Result result;
  ASSERT_TRUE(simulate::simulate(variant, {}, result).ok());
  EXPECT_EQ(result.makespan, 611 * kTenth);
  EXPECT_EQ(result.places[0].busy, (30 + 50 + 90 + 180 + 100 + 60 + 3 * 7) * kTenth);
  EXPECT_EQ(result.places[3].busy, (20 + 40 + 7) * kTenth);
  // Each holds what its own samples need: nine of stage 2, five of stage 1, three of stage 0.
  EXPECT_EQ(result.places[0].peakActivation, (9 + 5 + 3) * (plan::Bytes(80) << 20));
  EXPECT_EQ(result.places[1].peakActivation, (4 + 2) * (plan::Bytes(80) << 20));
  EXPECT_EQ(result.places[2].peakActivation, 2 * (plan::Bytes(80) << 20));
  ASSERT_TRUE(simulate::span(variant, span, result).ok());
  EXPECT_EQ(span, 611 * kTenth);
}

// Stage 2's sum, right after its backward, holds the queue in which stage 1's reshard stands; at the end it holds up
// stage 1's sum.
TEST(Groups, SumsAndReshardsTakeTurns) {
  Burst how;
  how.widths = {1, 2, 2};
  how.batch = 2;
  const auto with = [](std::vector<Row> rows) {
    rows.insert(rows.end(), {{"F 0", 0, 20},
                             {"reshard F 0", 20, 26},
                             {"F 1", 26, 36},
                             {"F 2", 36, 46},
                             {"BW 2", 46, 66},
                             {"BW 1", 66, 86}});
    return byTime(std::move(rows));
  };
  EXPECT_EQ(rowsOf(makeBurst(how).variants[0], 0, 0), with({{"reshard B 1", 86, 92},
                                                            {"BW 0", 92, 132},
                                                            {"all_reduce 2", 92, 122},
                                                            {"all_reduce 1", 122, 152},
                                                            {"optimizer 2", 132, 139},
                                                            {"optimizer 1", 152, 159},
                                                            {"optimizer 0", 159, 166}}));
  how.early = true;
  EXPECT_EQ(rowsOf(makeBurst(how).variants[0], 0, 0), with({{"all_reduce 2", 66, 96},
                                                            {"reshard B 1", 96, 102},
                                                            {"BW 0", 102, 142},
                                                            {"all_reduce 1", 102, 132},
                                                            {"optimizer 2", 142, 149},
                                                            {"optimizer 1", 149, 156},
                                                            {"optimizer 0", 156, 163}}));
}

TEST(Groups, TheGoldenPlanIsProven) {
  plan::Plan plan;
  ASSERT_TRUE(plan::load(PIPEC_SOURCE_DIR "/test/golden/format-1.9.plan", plan).ok());
  for (const plan::Variant &variant : plan.variants) {
    simulate::Result result;
    Status status = simulate::prove(variant, result);
    EXPECT_TRUE(status.ok()) << status.message;
    Time span = 0;
    status = simulate::span(variant, span, result);
    EXPECT_TRUE(status.ok()) << status.message;
    EXPECT_EQ(span, variant.certificate.span);
  }
}

/// Right by all rules but P36, which names these instructions.
void stops(const plan::Plan &plan, const std::string &first, const std::string &second) {
  Status status = plan::verify(plan);
  EXPECT_TRUE(status.ok()) << status.message;
  simulate::Result result;
  status = simulate::simulate(plan.variants[0], {}, result);
  EXPECT_EQ(status.code, Code::Check);
  EXPECT_EQ(status.message,
            "it stops in a cycle of 2 instructions, each waiting for the next:\n  " + first + "\n  " + second);
}

// Two ranks sum two stages in unlike order. Of each group there is one sum, so P58 holds.
TEST(Groups, SumsInUnlikeOrderStop) {
  Burst how;
  how.widths = {3, 2};
  how.layers = 1;
  plan::Plan plan = makeBurst(how);
  plan::Program &program = plan.variants[0].programs[1];
  std::vector<plan::Instruction *> sums;
  for (plan::Instruction &each : program.instructions) {
    const Kind kind = program.operations[each.operation].kind;
    if (kind == Kind::AllReduce)
      sums.push_back(&each);
    if (kind == Kind::Optimizer)
      program.waits[each.firstWait].base = 4; // for both
  }
  ASSERT_EQ(sums.size(), 2u);
  std::swap(sums[0]->operation, sums[1]->operation);
  program.waits[sums[0]->firstWait].base = program.waits[sums[1]->firstWait].base;
  const std::string bytes = " layer 0 bytes 0 to 4194303 group ";
  stops(plan, "rank 0: all_reduce gradients stage 1" + bytes + "1",
        "rank 1: all_reduce gradients stage 0" + bytes + "0");
}

// Rank 1 holds neither stage 0 nor stage 2. What it gets for stage 3 it expects before it hands on what stage 1 makes.
TEST(Groups, ReshardsInUnlikeOrderStop) {
  Burst how;
  how.widths = {1, 2, 1, 3};
  how.backward = false;
  plan::Plan plan = makeBurst(how);
  plan::Program &program = plan.variants[0].programs[1];
  std::vector<plan::Instruction> instructions;
  std::vector<std::vector<plan::Wait>> waits;
  for (const plan::Instruction &each : program.instructions) {
    instructions.push_back(each);
    waits.emplace_back(program.waits.begin() + each.firstWait, program.waits.begin() + each.firstWait + each.waits);
  }
  // reshard F 0, F 1, reshard F 1, reshard F 2, F 3
  ASSERT_EQ(instructions.size(), 5u);
  std::swap(instructions[2], instructions[3]);
  std::swap(waits[2], waits[3]);
  plan::test::setStep(program, instructions, waits, false);
  stops(plan, "rank 0: reshard F stage 1 group 0", "rank 1: reshard F stage 2 group 1");
}

} // namespace
