// What measured steps make of the share of windows that jobs may fill.
#include "runtime/launch/JobLevel.h"

#include <gtest/gtest.h>

using namespace pipec::runtime;

namespace {

/// One round of two processes, of which the second takes longer.
std::optional<int> round(JobLevel &level, pipec::plan::Time solo, pipec::plan::Time filled) {
  EXPECT_EQ(level.heard(solo / 2, filled / 2), std::nullopt);
  return level.heard(solo, filled);
}

TEST(JobLevel, HalvesWhereThePromiseIsBrokenAndClimbsByATenth) {
  JobLevel level(2, 10'000);
  EXPECT_EQ(round(level, 1'000'000, 1'010'000), std::nullopt); // 1 % longer, as promised
  EXPECT_EQ(round(level, 1'000'000, 1'010'001), 500);
  EXPECT_EQ(round(level, 1'000'000, 1'020'000), 250);
  EXPECT_EQ(round(level, 1'000'000, 1'000'000), 350);
  for (const int expected : {450, 550, 650, 750, 850, 950, 1000})
    EXPECT_EQ(round(level, 1'000'000, 999'999), expected);
  EXPECT_EQ(round(level, 1'000'000, 1'000'000), std::nullopt);
}

TEST(JobLevel, ForgetsARoundBehindIt) {
  JobLevel level(2, 10'000);
  EXPECT_EQ(round(level, 100, 200), 500);
  EXPECT_EQ(round(level, 90, 90), 600);
  JobLevel one(1, 0);
  EXPECT_EQ(one.heard(5, 6), 500);
  for (int i = 0; i != 9; ++i)
    (void)one.heard(5, 6);
  EXPECT_EQ(one.heard(5, 6), std::nullopt); // nothing is left to halve
  EXPECT_EQ(one.heard(5, 5), 100);
}

} // namespace
