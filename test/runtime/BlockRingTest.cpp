// The ring of blocks alone: its messages handed from replica to replica by the test, in every order of coming, and the
// shares that go round in it.
#include "runtime/transport/host/BlockRing.h"
#include "runtime/transport/Shares.h"

#include <algorithm>
#include <deque>
#include <gtest/gtest.h>
#include <numeric>
#include <set>

using namespace pipec;
using namespace pipec::runtime;

namespace {

using Terms = std::vector<int32_t>; // whose gradients a part has, in the order in which they were added

/// Replicas whose blocks are lists of who was added.
class Ring {
public:
  explicit Ring(int32_t count, std::vector<int32_t> parts) : parts(std::move(parts)) {
    for (int32_t r = 0; r < count; ++r)
      replicas.push_back(std::make_unique<Replica>(*this, r, count));
  }

  struct Replica final : BlockRing::Carrier {
    Replica(Ring &all, int32_t own, int32_t count) : all(all), own(own), ring(own, count, *this) {
      for (int32_t block = 0; block < count; ++block)
        blocks.push_back(std::vector<Terms>(size_t(all.parts[size_t(block)]), Terms{own}));
    }
    void ask(const wire::Tag &tag, int64_t count) override { asks.push_back({tag, count}); }
    void give(const wire::Tag &, const BlockRing::Message &message, plan::Time ready) override {
      gives.push_back({blocks[size_t(message.block)][size_t(message.part)], ready});
    }
    Ring &all;
    const int32_t own;
    BlockRing ring;
    std::vector<std::vector<Terms>> blocks;
    std::deque<std::pair<wire::Tag, int64_t>> asks;
    std::deque<std::pair<Terms, plan::Time>> gives;
    int64_t toAdd = 0;
  };

  void begin(int32_t r, plan::Kind kind, int64_t step = 0) {
    EXPECT_EQ(replicas[size_t(r)]->ring.begin({0, step}, kind, parts, 100 + r), "");
  }
  /// Delivers all that is under way; additions end late.
  void deliver() {
    bool moved = true;
    while (std::exchange(moved, false))
      for (auto &r : replicas)
        moved |= carry(*r);
  }
  bool carry(Replica &from) {
    bool moved = false;
    Replica &before = *replicas[size_t(from.ring.before())], &after = *replicas[size_t(from.ring.after())];
    for (; !from.asks.empty(); moved = true) {
      EXPECT_EQ(before.ring.asked(from.asks.front().first, from.asks.front().second), "");
      from.asks.pop_front();
    }
    if (!from.gives.empty()) {
      const auto [terms, ready] = from.gives.front();
      from.gives.pop_front();
      const std::optional<BlockRing::Message> due = after.ring.due();
      EXPECT_TRUE(due) << "sent before it was asked for";
      Terms &own = after.blocks[size_t(due->block)][size_t(due->part)];
      own = due->adds ? [&] {
        Terms sum = terms;
        sum.push_back(after.own);
        return sum;
      }()
                      : terms;
      after.toAdd += due->adds;
      after.ring.arrived(ready);
      from.ring.left();
      moved = true;
    } else if (from.toAdd > 0) {
      --from.toAdd;
      from.ring.dealt();
      moved = true;
    }
    return moved;
  }
  bool done() const {
    return std::all_of(replicas.begin(), replicas.end(), [](const auto &r) { return r->ring.done(); });
  }

  const std::vector<int32_t> parts;
  std::vector<std::unique_ptr<Replica>> replicas;
};

/// In the order of the ring behind the block's own replica, which comes last.
Terms sumOf(int32_t block, int32_t count) {
  Terms terms;
  for (int32_t i = 1; i <= count; ++i)
    terms.push_back((block + i) % count);
  return terms;
}

TEST(BlockRing, SumsInOneOrderInEveryOrderOfComing) {
  for (const int32_t count : {2, 3, 4}) {
    std::vector<int32_t> order(static_cast<size_t>(count)), parts;
    std::iota(order.begin(), order.end(), 0);
    for (int32_t block = 0; block < count; ++block)
      parts.push_back(1 + 5 * (block % 3)); // unlike, and more than are asked for at once
    do {
      for (const plan::Kind kind : {plan::Kind::AllReduce, plan::Kind::ReduceScatter}) {
        Ring ring(count, parts);
        for (const int32_t r : order) {
          EXPECT_FALSE(ring.done());
          ring.begin(r, kind);
          ring.deliver();
        }
        ASSERT_TRUE(ring.done());
        for (const auto &r : ring.replicas) {
          EXPECT_EQ(r->ring.latest(), 100 + count - 1);
          for (int32_t block = 0; block < count; ++block)
            for (const Terms &part : r->blocks[size_t(block)])
              EXPECT_TRUE(part == sumOf(block, count) || (kind == plan::Kind::ReduceScatter && block != r->own))
                  << "block " << block << " at replica " << r->own;
        }
      }
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

TEST(BlockRing, GathersWhatEachHas) {
  Ring ring(4, {1, 2, 7, 1});
  for (int32_t r = 0; r < 4; ++r)
    ring.begin(r, plan::Kind::AllGather);
  ring.deliver();
  ASSERT_TRUE(ring.done());
  for (const auto &r : ring.replicas)
    for (int32_t block = 0; block < 4; ++block)
      for (const Terms &part : r->blocks[size_t(block)])
        EXPECT_EQ(part, Terms{block});
}

TEST(BlockRing, AReplicaAheadIsHeardLater) {
  Ring ring(2, {1, 1});
  for (int64_t step = 0; step < 3; ++step) {
    for (const int32_t r : {0, 1}) {
      ring.begin(r, plan::Kind::AllGather, step);
      ring.deliver();
    }
    ASSERT_TRUE(ring.done());
    for (auto &r : ring.replicas)
      r->ring.end();
  }
}

TEST(BlockRing, KnowsWhichNeighbourHasCome) {
  Ring ring(4, {1, 1, 1, 1});
  for (const int32_t r : {0, 2, 3}) {
    ring.begin(r, plan::Kind::AllReduce);
    ring.deliver();
  }
  EXPECT_FALSE(ring.replicas[2]->ring.heard());
  EXPECT_FALSE(ring.replicas[0]->ring.wanted());
  EXPECT_TRUE(ring.replicas[3]->ring.heard() && ring.replicas[3]->ring.wanted());
}

TEST(BlockRing, WhatCannotBeIsWrong) {
  Ring ring(2, {1, 1});
  EXPECT_EQ(ring.replicas[0]->ring.asked({0, 3}, 1), "");
  EXPECT_EQ(ring.replicas[0]->ring.begin({0, 2}, plan::Kind::AllReduce, {1, 1}, 0),
            "is at the all_reduce in step 3 epoch 0, this rank at the all_reduce in step 2 "
            "epoch 0");
  EXPECT_EQ(ring.replicas[1]->ring.asked({0, 2}, 100), "asked for 100 messages at once");
}

// Whoever asks first: the other one, too, has come to its own by then.
TEST(BlockRing, ReplicasAtDifferentCollectivesAreToldSo) {
  Ring ring(2, {1, 1});
  for (const int32_t r : {0, 1})
    EXPECT_EQ(ring.replicas[size_t(r)]->ring.begin({0, 2 + r}, plan::Kind::AllReduce, {1, 1}, 0), "");
  EXPECT_EQ(ring.replicas[0]->ring.asked({0, 3}, 1),
            "is at the all_reduce in step 3 epoch 0, this rank at the all_reduce in step 2 epoch 0");
}

plan::Operation of(int32_t first, int32_t count, plan::Bytes begin, plan::Bytes end) {
  plan::Operation operation{plan::Kind::AllReduce, plan::Payload::Gradients};
  operation.firstLayer = first;
  operation.layers = count;
  operation.begin = begin;
  operation.end = end;
  return operation;
}

/// Layers of 10, 1 and 7 numbers, of 4, 8 and 4 bytes.
std::vector<LayerMemory> threeLayers() {
  static std::byte memory[3][100];
  return {{memory[0], nullptr, 10, Number::Float32, {0, 40, 0, false}},
          {memory[1], nullptr, 1, Number::Float64, {0, 8, 0, false}},
          {memory[2], nullptr, 7, Number::Float32, {0, 28, 0, false}}};
}

using Bytes = std::multiset<const std::byte *>;
void add(const std::vector<Extent> &share, Bytes &bytes) {
  for (const Extent &extent : share)
    for (plan::Bytes b = 0; b < extent.bytes(); ++b)
      bytes.insert(extent.data + b);
}

TEST(Shares, AreTheSameHoweverLayersAreBundledAndCut) {
  const std::vector<LayerMemory> layers = threeLayers();
  for (const int32_t count : {1, 2, 3, 5})
    for (int32_t replica = 0; replica < count; ++replica) {
      Bytes whole, each, pieces;
      add(shareOf(of(0, 3, 0, 76), layers, replica, count), whole);
      add(shareOf(of(0, 1, 0, 40), layers, replica, count), each);
      add(shareOf(of(1, 2, 40, 76), layers, replica, count), each);
      for (plan::Bytes at = 0; at < 76; at += 13) // through the middle of numbers
        add(shareOf(of(0, 3, at, std::min<plan::Bytes>(at + 13, 76)), layers, replica, count), pieces);
      EXPECT_EQ(whole, each);
      EXPECT_EQ(whole, pieces);
    }
}

TEST(Shares, CoverEachNumberOnce) {
  const std::vector<LayerMemory> layers = threeLayers();
  Bytes all;
  for (int32_t replica = 0; replica < 4; ++replica)
    add(shareOf(of(0, 3, 0, 76), layers, replica, 4), all);
  EXPECT_EQ(all.size(), 76u);
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), 76u);
  const std::vector<Extent> second = shareOf(of(0, 1, 0, 40), layers, 1, 4); // numbers 2 to 4
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second.front().data, layers[0].gradients + 8);
  EXPECT_EQ(second.front().count, 3);
}

TEST(Shares, AreCutIntoParts) {
  const std::vector<LayerMemory> layers = threeLayers();
  const auto parts = partsOf(shareOf(of(0, 3, 0, 76), layers, 0, 1), 16);
  Bytes all;
  for (const auto &part : parts) {
    plan::Bytes bytes = 0;
    for (const Extent &extent : part)
      bytes += extent.bytes();
    EXPECT_LE(bytes, 16);
    add(part, all);
  }
  EXPECT_EQ(all.size(), 76u);
  EXPECT_EQ(partsOf({}, 16).size(), 1u);
}

} // namespace
