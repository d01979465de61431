// Samples that change ranks: between members whose messages the test carries, pair by pair in their order, else in any.
#include "runtime/transport/host/SampleExchange.h"

#include "runtime/plan/Samples.h"

#include <algorithm>
#include <deque>
#include <gtest/gtest.h>
#include <map>
#include <numeric>
#include <random>

using namespace pipec;
using namespace pipec::runtime;

namespace {

using Value = uint32_t;

plan::Operation reshardOf(plan::Payload of, int32_t stage) {
  plan::Operation operation{.kind = plan::Kind::Reshard, .of = of, .stage = stage};
  operation.group = 0;
  return operation;
}
const plan::Operation kForward = reshardOf(plan::Payload::Forward, 0), kBack = reshardOf(plan::Payload::Backward, 1);

/// The members of a group, and what is on its way between them.
class Group {
public:
  Group(int32_t count, int64_t batch) : batch(batch) {
    std::vector<int32_t> ranks(static_cast<size_t>(count));
    std::iota(ranks.begin(), ranks.end(), 0);
    for (int32_t rank = 0; rank < count; ++rank)
      members.push_back(std::make_unique<Member>(*this, rank, ranks));
  }

  struct Message {
    wire::Frame frame;
    std::vector<asio::const_buffer> payload; // read when it arrives, as a socket may
    std::function<void()> written;
  };
  struct Member final : BlockExchange::Owner {
    Member(Group &all, int32_t rank, const std::vector<int32_t> &ranks)
        : all(all), rank(rank), exchange(ranks, rank, *this) {}
    void write(int32_t process, const wire::Frame &frame, std::vector<asio::const_buffer> payload,
               std::function<void()> written) override {
      all.under[{rank, process}].push_back({frame, std::move(payload), std::move(written)});
    }
    void exchanged() override {}
    void refuse(int32_t process, const std::string &wrong) override { refused = std::to_string(process) + " " + wrong; }
    Group &all;
    const int32_t rank;
    SampleExchange exchange;
    std::vector<Value> from, to;
    std::string refused;
  };

  /// Comes to a reshard between widths; sample i is worth `worth` + i.
  void begin(int32_t rank, const plan::Operation &operation, int32_t from, int32_t to, Value worth, int64_t step = 0) {
    Member &own = *members[size_t(rank)];
    own.from.clear();
    for (int64_t i = rank; i < batch && rank < from; i += from)
      own.from.push_back(worth + Value(i));
    own.to.assign(rank < to ? size_t(plan::samplesOf(batch, to, rank)) : 0, 0);
    own.exchange.begin({&operation, 0, step, 0}, {batch, from, to}, slotOf(own.from), slotOf(own.to), 100 + rank);
  }
  bool has(int32_t rank, int32_t to, Value worth) const {
    const std::vector<Value> &found = members[size_t(rank)]->to;
    for (size_t k = 0; k < found.size(); ++k)
      if (found[k] != worth + Value(rank) + Value(k) * Value(to))
        return false;
    return true;
  }
  /// The first message between two of those that have one.
  bool carry(std::mt19937 &random) {
    std::vector<std::pair<int32_t, int32_t>> pairs;
    for (const auto &[pair, messages] : under)
      if (!messages.empty())
        pairs.push_back(pair);
    if (pairs.empty())
      return false;
    const auto [from, to] = pairs[random() % pairs.size()];
    const Message message = std::move(under[{from, to}].front());
    under[{from, to}].pop_front();
    deliver(from, to, message);
    return true;
  }
  void deliver(int32_t from, int32_t to, const Message &message) {
    SampleExchange &taker = members[size_t(to)]->exchange;
    if (message.frame.type == wire::Type::Ask)
      return taker.onAsk(from, message.frame);
    const std::vector<asio::mutable_buffer> *landing = taker.onBlock(from, message.frame);
    if (!landing)
      return;
    EXPECT_EQ(asio::buffer_copy(*landing, message.payload), message.frame.bytes);
    taker.onArrived(from, message.frame);
    message.written();
  }
  std::string refused() const {
    for (const auto &each : members)
      if (!each->refused.empty())
        return each->refused;
    return "";
  }

  static Slot slotOf(std::vector<Value> &values) {
    return {reinterpret_cast<std::byte *>(values.data()), plan::Bytes(values.size() * sizeof(Value))};
  }
  const int64_t batch;
  std::vector<std::unique_ptr<Member>> members;
  std::map<std::pair<int32_t, int32_t>, std::deque<Message>> under;
};

TEST(SampleExchange, EverySampleComesToItsPlaceInEveryOrderOfComing) {
  std::mt19937 random(1);
  for (int32_t from = 1; from <= 6; ++from)
    for (int32_t to = 1; to <= 6; ++to)
      for (const int64_t batch : {6, 7, 12, 25}) {
        if (from == to)
          continue;
        const int32_t count = std::max(from, to);
        Group group(count, batch);
        std::vector<int> rounds(size_t(count), 0); // that a member has begun; forward and back, twice
        const auto begin = [&](int32_t rank) {
          const int round = rounds[size_t(rank)]++;
          round % 2 == 0 ? group.begin(rank, kForward, from, to, Value(1000 * round), round)
                         : group.begin(rank, kBack, to, from, Value(1000 * round), round);
        };
        const auto finished = [&] { return std::ranges::all_of(rounds, [](int each) { return each > 4; }); };
        for (int turns = 0; !finished() && turns < 100'000; ++turns) {
          const auto rank = int32_t(random() % unsigned(count));
          SampleExchange &own = group.members[size_t(rank)]->exchange;
          if (own.done()) {
            EXPECT_EQ(own.latest(), 100 + count - 1);
            const int round = rounds[size_t(rank)] - 1;
            EXPECT_TRUE(group.has(rank, round % 2 == 0 ? to : from, Value(1000 * round)));
            own.end();
            if (round == 3)
              rounds[size_t(rank)] = 5;
          } else if (!own.under() && rounds[size_t(rank)] < 4) {
            begin(rank);
          } else {
            group.carry(random);
          }
        }
        EXPECT_TRUE(finished()) << from << " to " << to << " of " << batch;
        EXPECT_EQ(group.refused(), "");
      }
}

TEST(SampleExchange, KnowsWhoHasNotCome) {
  Group group(3, 6);
  std::mt19937 random(1);
  group.begin(0, kForward, 3, 1, 0);
  EXPECT_EQ(group.members[0]->exchange.missing(), 1);
  group.begin(1, kForward, 3, 1, 0);
  while (group.carry(random))
    ;
  EXPECT_EQ(group.members[0]->exchange.missing(), 2);
  EXPECT_FALSE(group.members[0]->exchange.done());
  EXPECT_TRUE(group.members[0]->exchange.has(2));
  EXPECT_FALSE(group.members[0]->exchange.has(0));
  EXPECT_FALSE(group.members[0]->exchange.has(3));
}

TEST(SampleExchange, WhatCannotBeIsRefused) {
  const Label label{&kForward, 0, 0, 0}, other{&kBack, 0, 0, 0};
  wire::Frame ask, block;
  ask.type = wire::Type::Ask;
  ask.tag = wire::tagOf(label);
  block.type = wire::Type::Block;
  block.tag = ask.tag;
  block.bytes = 2 * sizeof(Value);
  const auto says = [&](const std::string &what, const std::function<void(SampleExchange &)> &does, bool begun = true) {
    Group group(2, 4);
    if (begun)
      group.begin(0, kForward, 2, 1, 0);
    does(group.members[0]->exchange);
    EXPECT_NE(group.refused().find(what), std::string::npos) << what << ": " << group.refused();
  };
  says("1 is at the reshard of B of stage 1 in step 0 epoch 0, this rank at the reshard of F of stage 0 in step 0 "
       "epoch 0",
       [&](SampleExchange &own) {
         wire::Frame wrong = ask;
         wrong.tag = wire::tagOf(other);
         own.onAsk(1, wrong);
       });
  says(
      "1 came to the reshard of F of stage 0 in step 0 epoch 0 twice",
      [&](SampleExchange &own) {
        own.onAsk(1, ask);
        own.onAsk(1, ask);
      },
      false);
  says("7 is at the reshard of F of stage 0 in step 0 epoch 0, of a group that it is not in",
       [&](SampleExchange &own) { own.onAsk(7, ask); });
  says("sent 8 bytes of the reshard of F of stage 0 in step 0 epoch 0 where none were due",
       [&](SampleExchange &own) { EXPECT_EQ(own.onBlock(1, block), nullptr); }); // it has not come
  says("sent 9 bytes of the reshard of F of stage 0 in step 0 epoch 0 where 8 were due", [&](SampleExchange &own) {
    own.onAsk(1, ask);
    block.bytes = 9;
    EXPECT_EQ(own.onBlock(1, block), nullptr);
    block.bytes = 8;
  });
  says("where none were due", [&](SampleExchange &own) { // twice
    own.onAsk(1, ask);
    EXPECT_NE(own.onBlock(1, block), nullptr);
    own.onArrived(1, block);
    EXPECT_EQ(own.onBlock(1, block), nullptr);
  });
}

} // namespace
