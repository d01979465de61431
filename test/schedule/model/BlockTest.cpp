// Building blocks: what is refused, and repetition against sorting all passes by slot.
#include "runtime/plan/Limits.h"
#include "test/schedule/Support.h"

#include <gtest/gtest.h>

namespace pipec::schedule::test {
namespace {

Problem split() { return uniform(2, 4, 1, 1, 1, 0, BackwardMode::Split); }

Block right() { return find("1f1b")->block(split()); } // F 0 1, B 4 2, W 5 3, interval 3

struct Broken {
  const char *name;
  void (*breakIt)(Block &);
  const char *message;
};

class BlockCheckRefuses : public testing::TestWithParam<Broken> {};

TEST_P(BlockCheckRefuses, OneRuleBroken) {
  Block block = right();
  ASSERT_EQ(check(split(), block), "");
  GetParam().breakIt(block);
  EXPECT_EQ(check(split(), block), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Rules, BlockCheckRefuses,
    testing::Values(
        Broken{"Forward", [](Block &b) { b.forward.pop_back(); }, "1 forward slots, expected 2"},
        Broken{"BackwardInput", [](Block &b) { b.backwardInput.push_back(9); }, "3 backward input slots, expected 2"},
        Broken{"BackwardWeight", [](Block &b) { b.backwardWeight.clear(); }, "0 backward weight slots, expected 2"},
        Broken{"Interval", [](Block &b) { b.interval = 0; },
               "an interval of 0 slots, expected 1 to 250000000000000000"},
        Broken{"Range", [](Block &b) { b.forward[0] = -1; },
               "the forward slot of stage 0 is -1, expected 0 to 1000000000000000000"},
        Broken{"ForwardOrder", [](Block &b) { b.forward[1] = 0; },
               "the forward of stage 1 is in slot 0, expected after slot 0, the forward of stage 0"},
        Broken{"Turn", [](Block &b) { b.backwardInput[1] = 1; },
               "the backward of stage 1 is in slot 1, expected after slot 1, the forward of stage 1"},
        Broken{"BackwardOrder", [](Block &b) { b.backwardInput[0] = 2; },
               "the backward of stage 0 is in slot 2, expected after slot 2, the backward of stage 1"},
        Broken{"WeightOrder", [](Block &b) { b.backwardWeight[0] = 4; },
               "the backward weight of stage 0 is in slot 4, expected after slot 4, its backward input"},
        Broken{"Collision", [](Block &b) { b.backwardWeight[0] = 9; },
               "on rank 0 the forward of stage 0 and the backward weight of stage 0 both fall on slot 0 modulo 3, "
               "expected different slots"}),
    [](const auto &info) { return info.param.name; });

TEST(BlockCheck, RefusesWeightsOfAFusedBackward) {
  Problem problem = split();
  problem.backward = BackwardMode::Fused;
  EXPECT_EQ(check(problem, right()), "2 backward weight slots, expected 0");
}

/// Every pass with its slot, sorted.
Words sortedBySlot(const Problem &problem, const Block &block) {
  struct Pass {
    int64_t slot;
    Op op;
  };
  std::vector<std::vector<Pass>> passes(problem.ranks);
  const bool fused = problem.backward == BackwardMode::Fused;
  for (int32_t s = 0; s < static_cast<int32_t>(problem.stages.size()); ++s)
    for (int64_t j = 0; j < problem.microbatches; ++j) {
      auto &mine = passes[problem.rankOf[s]];
      mine.push_back({block.forward[s] + j * block.interval, {s, Letter::F}});
      mine.push_back({block.backwardInput[s] + j * block.interval, {s, fused ? Letter::BW : Letter::B}});
      if (!fused)
        mine.push_back({block.backwardWeight[s] + j * block.interval, {s, Letter::W}});
    }
  Words words(problem.ranks);
  for (int32_t r = 0; r < problem.ranks; ++r) {
    std::sort(passes[r].begin(), passes[r].end(), [](const Pass &a, const Pass &b) { return a.slot < b.slot; });
    for (const Pass &pass : passes[r])
      words[r].push_back(pass.op);
  }
  return words;
}

TEST(Repeat, IsTheOrderOfSlots) {
  Random random(3);
  int legal = 0;
  for (int n = 0; n < 20'000 && legal < 1000; ++n) {
    const Problem problem = randomProblem(random, 3, 5, 9);
    const auto stages = problem.stages.size();
    Block block;
    block.interval = pick(random, 3, 30);
    int64_t slot = pick(random, 0, 5);
    for (size_t s = 0; s < stages; ++s)
      block.forward.push_back(slot += pick(random, 1, 8));
    slot += pick(random, 0, 1) * pick(random, 0, 500); // beyond the last microbatch's forward, sometimes
    block.backwardInput.resize(stages);
    for (size_t s = stages; s-- > 0;)
      block.backwardInput[s] = slot += pick(random, 1, 8);
    if (problem.backward == BackwardMode::Split)
      for (size_t s = 0; s < stages; ++s)
        block.backwardWeight.push_back(block.backwardInput[s] + pick(random, 1, 40));
    if (!check(problem, block).empty())
      continue;
    ++legal;
    const Words words = repeat(problem, block);
    EXPECT_EQ(words, sortedBySlot(problem, block));
    EXPECT_EQ(verify(problem, words), "");
  }
  EXPECT_GE(legal, 1000);
}

TEST(Repeat, TakesFarOffsetsInStride) {
  const Problem problem = split();
  Block block = right();
  for (int64_t *slot :
       {&block.backwardInput[0], &block.backwardInput[1], &block.backwardWeight[0], &block.backwardWeight[1]})
    *slot += 3 * (limits::kTime / 4);
  ASSERT_EQ(check(problem, block), "");
  EXPECT_EQ(repeat(problem, block), sortedBySlot(problem, block));
}

} // namespace
} // namespace pipec::schedule::test
