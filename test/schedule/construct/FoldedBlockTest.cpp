// Blocks of V placement whose streams wait least: the least by trying everything on few ranks, within the capacities on
// any problem, and near the bound where other words are not.
#include "compiler/schedule/construct/FoldedBlock.h"

#include "compiler/schedule/bounds/Bounds.h"
#include "compiler/schedule/construct/FoldedStreams.h"
#include "compiler/schedule/evaluate/Evaluate.h"
#include "compiler/schedule/search/Search.h"
#include "test/bench/Grid.h"

#include <array>
#include <gtest/gtest.h>
#include <limits>
#include <random>

namespace pipec::schedule::test {
namespace {

/// What a microbatch waits before B of its second chunk and behind F of it, and elsewhere; in its order of passes.
struct Waits {
  std::array<int32_t, 7> each{};
  int32_t price() const { return 8 * (each[0] + each[1] + each[5] + each[6]) + 9 * (each[2] + each[3] + each[4]); }
};

/// Two ranks, F of one slot and B of `backward`, W of one: a microbatch's F, F on the other rank, and so on.
Fold twoRanks(int32_t backward, int32_t transfer) {
  Fold fold;
  for (int32_t r = 0; r < 2; ++r) {
    Level level;
    level.length = {1, 1, backward, backward};
    level.weight = {1, 1};
    if (r > 0)
      level.hop = {1 + transfer, 1 + transfer, backward + transfer, backward + transfer};
    fold.levels.push_back(level);
  }
  fold.work = 2 * (2 + backward);
  return fold;
}

/// Starts of the passes with these waits: F, F, F, F, B, B, B, B on ranks 0, 1, 1, 0, 0, 1, 1, 0.
std::array<int64_t, 8> startsOf(const Waits &waits, int32_t backward, int32_t transfer) {
  std::array<int64_t, 8> starts{};
  for (size_t i = 0; i < 7; ++i)
    starts[i + 1] = starts[i] + (i < 4 ? 1 : backward) + (i % 2 == 0 ? transfer : 0) + waits.each[i];
  return starts;
}

bool areApart(const std::array<int64_t, 8> &starts, int32_t backward, int64_t interval) {
  constexpr int32_t kRanks[] = {0, 1, 1, 0, 0, 1, 1, 0};
  for (size_t x = 0; x < 8; ++x)
    for (size_t y = 0; y < x; ++y) {
      const int64_t after = (starts[x] - starts[y]) % interval;
      if (kRanks[x] == kRanks[y] && (after < (y < 4 ? 1 : backward) || interval - after < (x < 4 ? 1 : backward)))
        return false;
    }
  return true;
}

TEST(FoldedBlock, WaitsNoMoreThanIsNeededOnTwoRanks) {
  constexpr int32_t kMost = 6; // waits of one pass that are tried
  for (const int32_t backward : {1, 2, 3})
    for (const int32_t transfer : {0, 1, 2})
      for (int32_t interval = 2 * (2 + backward); interval < 2 * (2 + backward) + 3; ++interval) {
        int32_t least = std::numeric_limits<int32_t>::max();
        Waits waits;
        for (int32_t n = 0; n < 823543; ++n) { // 7^7
          for (int32_t i = 0, rest = n; i < 7; ++i, rest /= kMost + 1)
            waits.each[size_t(i)] = rest % (kMost + 1);
          if (waits.price() < least && areApart(startsOf(waits, backward, transfer), backward, interval))
            least = waits.price();
        }
        const std::optional<std::vector<Slots>> slots = pass(twoRanks(backward, transfer), interval);
        ASSERT_TRUE(slots) << backward << ' ' << transfer << ' ' << interval;
        const auto &first = slots->front().at, &last = slots->back().at;
        const std::array<int64_t, 8> found = {first[0], last[0], last[1], first[1],
                                              first[2], last[2], last[3], first[3]};
        Waits taken;
        const std::array<int64_t, 8> alone = startsOf({}, backward, transfer);
        for (size_t i = 0; i < 7; ++i)
          taken.each[i] = int32_t(found[i + 1] - found[i] - alone[i + 1] + alone[i]);
        EXPECT_TRUE(areApart(found, backward, interval));
        EXPECT_EQ(taken.price(), least) << backward << ' ' << transfer << ' ' << interval;
      }
}

TEST(FoldedBlock, IsValidAndWithinTheCapacitiesOfAnyProblem) {
  std::mt19937 random(3);
  const auto draw = [&](int64_t least, int64_t most) { return least + int64_t(random() % uint64_t(most - least + 1)); };
  int made = 0;
  for (int i = 0; i < 300; ++i) {
    Problem problem;
    problem.ranks = int32_t(draw(1, 9));
    problem.microbatches = int32_t(draw(1, 40));
    problem.backward = draw(0, 3) == 0 ? BackwardMode::Fused : BackwardMode::Split;
    problem.rankOf = placed(problem.ranks, 2 * problem.ranks, true);
    const bool equal = draw(0, 1) == 0;
    Stage stage;
    for (int32_t s = 0; s < 2 * problem.ranks; ++s) {
      if (s == 0 || !equal) {
        stage.forward = draw(0, 40), stage.backwardInput = draw(0, 40), stage.backwardWeight = draw(0, 40);
        stage.backward = stage.backwardInput + stage.backwardWeight;
        stage.activation = draw(0, 4), stage.context = draw(0, 4);
      }
      problem.stages.push_back(stage);
    }
    problem.link.latency = draw(0, 1) == 0 ? 0 : draw(0, 10);
    problem.memoryLimit = std::max<Bytes>(leastLimit(problem) + draw(-1, 40), 1);
    ASSERT_EQ(check(problem), "");
    const Capacities capacities = capacitiesOf(problem, 0);
    ASSERT_TRUE(isFolded(problem));
    const std::optional<Block> block = foldedBlock(problem, capacities);
    if (!block)
      continue;
    ++made;
    ASSERT_EQ(check(problem, *block), "");
    const Words words = repeat(problem, *block);
    ASSERT_EQ(verify(problem, words), "");
    for (size_t r = 0; r < words.size(); ++r)
      EXPECT_LE(peakOf(problem, words[r]), capacities[r]);
  }
  EXPECT_GT(made, 100);
}

TEST(FoldedBlock, OnlyVPlacementIsFolded) {
  Problem problem;
  problem.ranks = 3;
  problem.stages.resize(6);
  problem.rankOf = placed(3, 6, true);
  EXPECT_TRUE(isFolded(problem));
  problem.rankOf = placed(3, 6, false);
  EXPECT_FALSE(isFolded(problem));
}

/// Half the memory of p microbatches is just enough for the full rate where B is longer than F: without these blocks
/// the search is 7 and 4 % over the bound.
TEST(FoldedBlock, TheSearchIsNearTheBoundAtHalfTheMemory) {
  for (const grid::Row &row :
       {grid::Row{16, 128, 8, 2000, 3000, 3000, 0, "v", true}, grid::Row{8, 24, 4, 2000, 3000, 3000, 0, "v", false}}) {
    const std::optional<Solution> solution =
        solve(grid::problemOf(row), {.objective = row.span ? Objective::Span : Objective::Makespan});
    ASSERT_TRUE(solution);
    EXPECT_LE(double(solution->time), 1.02 * double(solution->bound)) << row.csv();
  }
}

} // namespace
} // namespace pipec::schedule::test
