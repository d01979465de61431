// The ring of a sum alone: its messages handed from rank to rank by the test, in any order that connections keep.
#include "runtime/transport/host/SumRing.h"

#include <algorithm>
#include <deque>
#include <gtest/gtest.h>
#include <map>
#include <numeric>

using namespace pipec;
using namespace pipec::runtime;

namespace {

/// n ranks and the messages between them, each connection in order.
struct Ring {
  explicit Ring(int32_t ranks) {
    for (int32_t r = 0; r < ranks; ++r) {
      rings.emplace_back(r, ranks, [this, r](int32_t to, const wire::Frame &frame) {
        EXPECT_EQ(to, rings[size_t(r)].after());
        underWay[to].push_back(frame);
        hops += frame.type != wire::Type::Here;
      });
      totals.emplace_back();
    }
  }
  void take(int32_t rank, const SumRing::Outcome &outcome) {
    EXPECT_EQ(outcome.wrong, "");
    if (outcome.total)
      totals[size_t(rank)] = outcome.total;
  }
  void join(int32_t rank, int64_t step = 0) { take(rank, rings[size_t(rank)].join({0, step}, rank + 1.0, 100 - rank)); }
  void deliverAll() {
    while (!underWay.empty()) {
      auto at = underWay.begin();
      int32_t to = at->first;
      wire::Frame frame = at->second.front();
      at->second.pop_front();
      if (at->second.empty())
        underWay.erase(at);
      take(to, rings[size_t(to)].hear(frame));
    }
  }
  std::vector<SumRing> rings;
  std::vector<std::optional<SumRing::Total>> totals;
  std::map<int32_t, std::deque<wire::Frame>> underWay; // by receiver
  int hops = 0;
};

TEST(SumRing, EveryOrderOfComingGivesTheSameTotalIn2TimesNLess1Hops) {
  for (int32_t ranks : {1, 2, 3, 4, 5}) {
    std::vector<int32_t> order(static_cast<size_t>(ranks));
    std::iota(order.begin(), order.end(), 0);
    do {
      Ring ring(ranks);
      for (int32_t rank : order) {
        EXPECT_FALSE(ring.totals[0]);
        ring.join(rank);
        ring.deliverAll();
      }
      EXPECT_EQ(ring.hops, 2 * (ranks - 1));
      for (const auto &total : ring.totals) {
        ASSERT_TRUE(total);
        EXPECT_EQ(total->sum, ranks * (ranks + 1) / 2);
        EXPECT_EQ(total->ready, 100);
      }
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

// The next sum's messages may come while this rank is still busy with what follows the last.
TEST(SumRing, ARankAheadIsHeardLater) {
  Ring ring(2);
  for (int64_t step = 0; step < 3; ++step) {
    ring.join(0, step);
    ring.deliverAll(); // rank 1 has not come yet
    EXPECT_FALSE(ring.totals[0]);
    ring.join(1, step);
    EXPECT_TRUE(ring.totals[1]);
    ring.deliverAll();
    EXPECT_TRUE(ring.totals[0]);
    ring.totals.assign(2, std::nullopt);
  }
}

TEST(SumRing, KnowsWhetherItsNeighbourHasCome) {
  Ring ring(4);
  ring.join(0);
  ring.join(2);
  ring.join(3);
  ring.deliverAll(); // rank 1 is missing, and rank 2 alone is to say so
  EXPECT_TRUE(ring.rings[0].heard());
  EXPECT_FALSE(ring.rings[2].heard());
  EXPECT_TRUE(ring.rings[3].heard());
}

TEST(SumRing, AnotherSumThanTheExpectedNamesBoth) {
  Ring ring(2);
  ring.join(0, 3);
  SumRing::Outcome outcome = ring.rings[1].hear(ring.underWay[1].front());
  EXPECT_EQ(outcome.wrong, "");
  EXPECT_EQ(ring.rings[1].join({0, 2}, 1, 0).wrong,
            "is at the all_reduce in step 3 epoch 0, this rank at the all_reduce in step 2 epoch 0");
}

TEST(SumRing, WhatIsNotDueIsWrong) {
  Ring ring(3);
  wire::Frame frame;
  frame.type = wire::Type::Total;
  EXPECT_EQ(ring.rings[1].hear(frame).wrong, "sent the total of a sum where none was due");
  frame.type = wire::Type::Sum;
  EXPECT_EQ(ring.rings[0].hear(frame).wrong, "sent a part of a sum where none was due");
  EXPECT_EQ(ring.rings[1].hear(frame).wrong, "");
  EXPECT_EQ(ring.rings[1].hear(frame).wrong, "sent a part of a sum where none was due");
}

} // namespace
