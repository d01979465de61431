// Who has which units.
#include "compiler/portions/Ranges.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

using namespace pipec::portions;

namespace {

using Counts = std::vector<int64_t>;

TEST(UnitRanges, AreCountedTogether) {
  const Ranges one = {{0, 4}, {8, 2}}, other = {{3, 6}};
  EXPECT_EQ(unitsOf(one), 6);
  EXPECT_EQ(unitsOfBoth(one, other), 2);
  EXPECT_EQ(unitsOfEither(one, other), 10);
  EXPECT_EQ(unitsOfFirst(one, other), 4);
  EXPECT_EQ(unitsOfBoth(one, {}), 0);
}

TEST(UnitRanges, EqualCountsGiveTheFirstShardsMore) {
  EXPECT_EQ(equalCounts(10, 4), (Counts{3, 3, 2, 2}));
  EXPECT_EQ(equalCounts(1, 3), (Counts{1, 0, 0}));
}

TEST(UnitRanges, TheLastUnitsAreGivenInTheOrderOfShards) {
  // Owned: 0-3, 4-7, 8-11. The first gives 1-3, of which two go to the second and one to the third.
  const std::vector<Ranges> worked = given({4, 4, 4}, {1, 6, 5});
  EXPECT_EQ(worked[0], (Ranges{{0, 1}}));
  EXPECT_EQ(worked[1], (Ranges{{1, 2}, {4, 4}}));
  EXPECT_EQ(worked[2], (Ranges{{3, 1}, {8, 4}}));
  // What lies side by side is one range.
  EXPECT_EQ(given({2, 2}, {0, 4})[1], (Ranges{{0, 4}}));
  EXPECT_EQ(given({2, 2}, {0, 4})[0], Ranges());
}

TEST(UnitRanges, GivenUnitsAreWorkedOnce) {
  std::mt19937 random(3);
  const auto draw = [&](int64_t units, size_t shards) {
    Counts counts(shards, 0);
    for (int64_t unit = 0; unit != units; ++unit)
      ++counts[random() % shards];
    return counts;
  };
  for (int i = 0; i != 300; ++i) {
    const size_t shards = 1 + random() % 6;
    const int64_t units = int64_t(random() % 40);
    const Counts owned = draw(units, shards), counts = draw(units, shards);
    std::vector<int> seen(size_t(units), 0);
    const std::vector<Ranges> worked = given(owned, counts);
    for (size_t shard = 0; shard != shards; ++shard) {
      EXPECT_EQ(unitsOf(worked[shard]), counts[shard]);
      for (size_t at = 0; at != worked[shard].size(); ++at) {
        const Range each = worked[shard][at];
        EXPECT_GT(each.count, 0);
        EXPECT_TRUE(at == 0 || worked[shard][at - 1].end() < each.first);
        for (int64_t unit = each.first; unit != each.end(); ++unit)
          ++seen[size_t(unit)];
      }
      EXPECT_EQ(unitsOfBoth(worked[shard], contiguous(owned)[shard]), std::min(owned[shard], counts[shard]));
    }
    EXPECT_EQ(seen, std::vector<int>(size_t(units), 1));
  }
}

TEST(UnitRanges, ProportionsTakeTheLargestRemainders) {
  EXPECT_EQ(inProportion(10, {1, 1, 1}), (Counts{4, 3, 3}));
  EXPECT_EQ(inProportion(16, {1, 13, 0}), (Counts{1, 15, 0})); // 1.14 and 14.86
  EXPECT_EQ(inProportion(7, {3, 4}), (Counts{3, 4}));
}

} // namespace
