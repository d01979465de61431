// The judge: accepts every order that can run, and names what is wrong with any other.
#include "test/schedule/Support.h"

#include <gtest/gtest.h>

namespace pipec::schedule::test {
namespace {

constexpr Op kF0{0, Letter::F}, kF1{1, Letter::F}, kB0{0, Letter::B}, kB1{1, Letter::B}, kW0{0, Letter::W},
    kW1{1, Letter::W};

Problem split() { return uniform(2, 2, 1, 1, 1, 0, BackwardMode::Split); }

Words right() { return {{kF0, kF0, kB0, kW0, kB0, kW0}, {kF1, kB1, kW1, kF1, kB1, kW1}}; }

TEST(Verify, AcceptsRandomOrders) {
  Random random(2);
  for (int n = 0; n < 500; ++n) {
    const Problem problem = randomProblem(random, 5, 9, 7);
    EXPECT_EQ(verify(problem, randomWords(random, problem)), "");
  }
}

TEST(Verify, RefusesWordsForOtherRanks) {
  Words words = right();
  words.pop_back();
  EXPECT_EQ(verify(split(), words), "words for 1 ranks, expected 2");
}

TEST(Verify, RefusesAnUnknownStage) {
  Words words = right();
  words[0][2].stage = 2;
  EXPECT_EQ(verify(split(), words), "letter 2 of rank 0 is of stage 2, expected 0 to 1");
}

TEST(Verify, RefusesAWrongRank) {
  Words words = right();
  std::swap(words[0], words[1]);
  EXPECT_EQ(verify(split(), words), "letter 0 of rank 0 is of stage 1, which is on rank 1");
}

TEST(Verify, RefusesALetterOfTheOtherMode) {
  Words words = right();
  words[0][2].letter = static_cast<Letter>(7);
  EXPECT_EQ(verify(split(), words),
            "letter 2 of rank 0 is unknown letter, expected F, B, W or BW with a split backward");
  Problem fused = split();
  fused.backward = BackwardMode::Fused;
  EXPECT_EQ(verify(fused, right()), "letter 2 of rank 0 is B, expected F or BW with a fused backward");
}

TEST(Verify, RefusesAMissingLetter) {
  Words words = right();
  words[1].pop_back();
  EXPECT_EQ(verify(split(), words), "rank 1 has 1 W of stage 1, expected 2");
}

TEST(Verify, RefusesADoubledLetter) {
  Words words = right();
  words[0].push_back(kF0);
  EXPECT_EQ(verify(split(), words), "rank 0 has more than 2 F of stage 0, expected one a microbatch");
}

TEST(Verify, RefusesABackwardBeforeItsForward) {
  Words words = right();
  std::swap(words[1][0], words[1][1]);
  EXPECT_EQ(verify(split(), words), "letter 0 of rank 1: B 0 of stage 1 comes before its F");
}

TEST(Verify, RefusesAWeightBeforeItsBackward) {
  Words words = right();
  std::swap(words[1][1], words[1][2]);
  EXPECT_EQ(verify(split(), words), "letter 1 of rank 1: W 0 of stage 1 comes before its B");
}

TEST(Verify, RefusesACycleBetweenRanks) {
  Words words = right();
  words[0] = {kF0, kB0, kW0, kF0, kB0, kW0}; // its B 0 needs rank 1's, which
  words[1] = {kF1, kF1, kB1, kW1, kB1, kW1}; // comes after F 1, which needs rank 0's
  EXPECT_EQ(
      verify(split(), words),
      "the words wait for each other in a cycle: rank 0 at B 0 of stage 0 waits for B of stage 1; rank 1 at F 1 of "
      "stage 1 waits for F of stage 0");
}

TEST(Verify, RefusesStagesOfOneRankInTheWrongOrder) {
  Problem problem = split();
  problem.ranks = 1;
  problem.microbatches = 1;
  problem.rankOf = {0, 0};
  EXPECT_EQ(verify(problem, {{kF0, kF1, kB1, kB0, kW0, kW1}}), "");
  EXPECT_EQ(verify(problem, {{kF1, kF0, kB1, kB0, kW0, kW1}}),
            "the words wait for each other in a cycle: rank 0 at F 0 of stage 1 waits for F of stage 0");
}

TEST(Verify, OverlapsAnFWithAWholeBackwardBehindIt) {
  const Op f{0, Letter::F}, pair{0, Letter::F, true}, whole{0, Letter::BW};
  const Problem one = uniform(1, 2, 1, 1, 1);
  EXPECT_EQ(verify(one, {{f, pair, whole, whole}}), "");
  EXPECT_EQ(verify(one, {{pair, f, whole, whole}}),
            "letter 0 of rank 0: F of stage 0 is overlapped, expected an F with a BW behind it");
  EXPECT_EQ(verify(one, {{f, f, whole, Op{0, Letter::BW, true}}}),
            "letter 3 of rank 0: BW of stage 0 is overlapped, expected an F with a BW behind it");
  const Problem halves = uniform(1, 2, 1, 1, 1, 0, BackwardMode::Split);
  EXPECT_EQ(verify(halves, {{f, pair, kB0, kW0, kB0, kW0}}),
            "letter 1 of rank 0: F of stage 0 is overlapped, expected an F with a BW behind it");
}

TEST(Verify, RefusesAPairWhoseBackwardNeedsItsForward) {
  const Op pair{0, Letter::F, true}, whole{0, Letter::BW};
  EXPECT_EQ(verify(uniform(1, 1, 1, 1, 1), {{pair, whole}}), "letter 1 of rank 0: BW 0 of stage 0 comes before its F");
}

// Rank 0 would give its second forward only together with its first backward, which needs it.
TEST(Verify, RefusesPairsThatWaitForEachOther) {
  const Op f{0, Letter::F}, pair{0, Letter::F, true}, b{0, Letter::BW};
  const Op f1{1, Letter::F}, b1{1, Letter::BW};
  EXPECT_EQ(verify(uniform(2, 2, 1, 1, 1), {{f, f, b, b}, {f1, f1, b1, b1}}), "");
  EXPECT_EQ(
      verify(uniform(2, 2, 1, 1, 1), {{f, pair, b, b}, {f1, f1, b1, b1}}),
      "the words wait for each other in a cycle: rank 0 at BW 0 of stage 0 waits for BW of stage 1; rank 1 at F 1 "
      "of stage 1 waits for F of stage 0");
}

} // namespace
} // namespace pipec::schedule::test
