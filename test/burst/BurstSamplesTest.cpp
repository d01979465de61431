// Times by local batch, widths and moved samples, against values by hand and by counting.
#include "compiler/burst/Samples.h"

#include <gtest/gtest.h>

using namespace pipec::burst;

TEST(BurstSamples, TimesAreLinearBetweenEntries) {
  const Times times{{2, 10}, {4, 13}, {8, 12}};
  EXPECT_EQ(timeOf(times, 1), 10); // below the first
  EXPECT_EQ(timeOf(times, 2), 10);
  EXPECT_EQ(timeOf(times, 3), 12); // 11.5
  EXPECT_EQ(timeOf(times, 4), 13);
  EXPECT_EQ(timeOf(times, 5), 13); // 12.75
  EXPECT_EQ(timeOf(times, 6), 13); // 12.5
  EXPECT_EQ(timeOf(times, 7), 12); // 12.25
  EXPECT_EQ(timeOf(times, 8), 12);
  EXPECT_EQ(timeOf(times, 9), 14);  // 13.5
  EXPECT_EQ(timeOf(times, 11), 17); // 16.5
  EXPECT_EQ(timeOf(times, 80), 120);
  EXPECT_EQ(timeOf({}, 3), 0);
  EXPECT_EQ(timeOf({{1, pipec::limits::kTime}}, 1 << 20), pipec::schedule::kLongest);
}

TEST(BurstSamples, WidthsEndAtRanksAndBatch) {
  const auto widths = [](int64_t batch, int32_t ranks, Choices choices) {
    Problem problem;
    problem.batch = batch;
    problem.ranks = ranks;
    problem.choices = choices;
    return widthsOf(problem);
  };
  EXPECT_EQ(widths(16, 8, Choices::Powers), (Widths{1, 2, 4, 8}));
  EXPECT_EQ(widths(5, 8, Choices::Powers), (Widths{1, 2, 4}));
  EXPECT_EQ(widths(64, 7, Choices::Powers), (Widths{1, 2, 4}));
  EXPECT_EQ(widths(5, 8, Choices::All), (Widths{1, 2, 3, 4, 5}));
  EXPECT_EQ(widths(64, 3, Choices::All), (Widths{1, 2, 3}));
  EXPECT_EQ(widths(1, 1, Choices::All), (Widths{1}));
}

TEST(BurstSamples, MovedSamplesAreCounted) {
  for (int32_t batch = 1; batch <= 48; ++batch)
    for (int32_t from = 1; from <= batch; ++from)
      for (int32_t to = 1; to <= batch; ++to) {
        std::vector<int64_t> in(size_t(batch), 0), out(size_t(batch), 0);
        for (int32_t i = 0; i != batch; ++i)
          if (i % from != i % to) {
            ++out[size_t(i % from)];
            ++in[size_t(i % to)];
          }
        const int64_t most =
            std::max(*std::max_element(in.begin(), in.end()), *std::max_element(out.begin(), out.end()));
        ASSERT_EQ(movedSamples(batch, from, to), most) << batch << ": " << from << " to " << to;
      }
}
