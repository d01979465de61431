// What every transport promises (runtime/transport/Transport.h), between two ranks of a pipeline.
#include "test/conformance/Implementations.h"
#include "test/runtime/Plans.h"

using namespace pipec;
using namespace pipec::runtime;
using namespace pipec::test;

namespace {

constexpr plan::Time kMillisecond = 1'000'000'000;

class TransportConformance : public Conformance<TransportImplementation> {
protected:
  void SetUp() override {
    Conformance::SetUp();
    pipeline.wire = pipeline.latency = 0;
    pipeline.microbatches = 64;
    pipeline.bytes = kLarge;
    pipeline.ring = 1;
  }
  /// `sums`: the plan says that all ranks sum on their queue 1.
  void make(plan::Time deadline = 0, bool sums = false) {
    made = makePlan(pipeline);
    for (plan::Program &program : made.variants.front().programs)
      if (sums) {
        program.instructions.push_back({uint32_t(program.operations.size()), 1, 0, 0, 0, 0});
        program.operations.push_back(allReduce);
      }
    ranks = GetParam().make(made, deadline);
    issued.assign(ranks.size(), {});
    for (auto &rank : ranks)
      slots.push_back({rank->device().allocate(2 * kLarge), kLarge});
  }
  const plan::Instruction &find(int32_t rank, plan::Kind kind, plan::Payload of) const {
    const plan::Program &program = made.variants.front().programs[size_t(rank)];
    for (const plan::Instruction &i : program.instructions)
      if (program.operations[i.operation].kind == kind && program.operations[i.operation].of == of)
        return i;
    throw std::logic_error("the plan has no such transfer");
  }
  Slot half(int32_t rank, plan::Payload of, plan::Bytes bytes) const { // one for each direction
    return {slots[size_t(rank)].data + (of == plan::Payload::Forward ? 0 : kLarge), bytes};
  }
  /// Returns the queue.
  QueueId transfer(int32_t rank, plan::Kind kind, int64_t microbatch, plan::Bytes bytes,
                   plan::Payload of = plan::Payload::Forward) {
    return transferTo(rank, kind, microbatch, bytes, of, of);
  }
  /// The same into another half of the receiver's slot.
  QueueId transferTo(int32_t rank, plan::Kind kind, int64_t microbatch, plan::Bytes bytes, plan::Payload of,
                     plan::Payload landsIn) {
    const plan::Instruction &i = find(rank, kind, of);
    Label label{&made.variants.front().programs[size_t(rank)].operations[i.operation], microbatch, 0, 0};
    Transport &transport = ranks[size_t(rank)]->transport();
    if (kind == plan::Kind::Send)
      transport.send(i.queue, label, half(rank, of, bytes), half(label.operation->peer, landsIn, bytes));
    else
      transport.recv(i.queue, label, half(rank, landsIn, bytes));
    issued[size_t(rank)].add(ranks[size_t(rank)]->device(), i.queue);
    return i.queue;
  }
  /// Rank r says 10^r.
  void makeSums(int32_t count, plan::Time deadline = 0) {
    pipeline.ranks = count;
    make(deadline, true);
    summands.clear();
    for (double power = 1; auto &rank : ranks) {
      summands.push_back(&rank->summand(power));
      power *= 10;
    }
  }
  QueueId sum(int32_t rank, int64_t step = 0) { // on the queue of the first transfer
    ranks[size_t(rank)]->transport().allReduce(1, {&allReduce, 0, step, 0}, *summands[size_t(rank)]);
    issued[size_t(rank)].add(ranks[size_t(rank)]->device(), 1);
    return 1;
  }
  bool done(int32_t rank, QueueId queue, int64_t count) {
    return issued[size_t(rank)].synchronize(ranks[size_t(rank)]->device(), queue, count);
  }

  static constexpr plan::Bytes kLarge = 8 << 20;
  Pipeline pipeline;
  plan::Plan made;
  std::vector<std::unique_ptr<RankUnderTest>> ranks;
  std::vector<Issued> issued; // by each rank
  std::vector<Slot> slots;
  std::vector<Summand *> summands;
  plan::Operation allReduce{plan::Kind::AllReduce, plan::Payload::None, 0, -1, 0, 0, 8, 0, 0};
};

TEST_P(TransportConformance, WhatIsSentArrivesWholeWhateverItsSize) {
  make();
  int64_t count = 0;
  for (plan::Bytes bytes : {plan::Bytes(0), plan::Bytes(1), plan::Bytes(1000), plan::Bytes(65536), kLarge}) {
    std::byte value = std::byte(count + 1);
    Slot from = half(0, plan::Payload::Forward, bytes), to = half(1, plan::Payload::Forward, bytes);
    fill(ranks[0]->device(), from, value);
    QueueId sent = transfer(0, plan::Kind::Send, count, bytes);
    QueueId received = transfer(1, plan::Kind::Recv, count, bytes);
    ++count;
    ASSERT_TRUE(done(0, sent, count)) << ranks[0]->failure().status().message;
    ASSERT_TRUE(done(1, received, count)) << ranks[1]->failure().status().message;
    EXPECT_EQ(bytesOf(ranks[1]->device(), to), std::vector<std::byte>(size_t(bytes), value));
  }
}

TEST_P(TransportConformance, NothingIsWrittenBeyondATransfer) {
  make();
  fill(ranks[1]->device(), half(1, plan::Payload::Forward, 2000), std::byte(0xee));
  const QueueId sent = transfer(0, plan::Kind::Send, 0, 1000);
  ASSERT_TRUE(done(1, transfer(1, plan::Kind::Recv, 0, 1000), 1));
  ASSERT_TRUE(done(0, sent, 1));
  std::vector<std::byte> found = bytesOf(ranks[1]->device(), half(1, plan::Payload::Forward, 2000));
  EXPECT_EQ(found[999], std::byte(0));
  EXPECT_EQ(std::vector<std::byte>(found.begin() + 1000, found.end()), std::vector<std::byte>(1000, std::byte(0xee)));
}

TEST_P(TransportConformance, TransfersOfADirectionKeepTheirOrder) {
  make();
  QueueId sent = 0, received = 0;
  for (int64_t m = 0; m < 64; ++m) {
    sent = transfer(0, plan::Kind::Send, m, 4096);
    received = transfer(1, plan::Kind::Recv, m, 4096);
  }
  EXPECT_TRUE(done(0, sent, 64)) << ranks[0]->failure().status().message;
  EXPECT_TRUE(done(1, received, 64)) << ranks[1]->failure().status().message;
}

TEST_P(TransportConformance, TheTwoDirectionsDoNotHoldEachOther) {
  make();
  QueueId forward = transfer(1, plan::Kind::Recv, 0, 100); // not sent yet
  QueueId back = transfer(1, plan::Kind::Send, 0, kLarge, plan::Payload::Backward);
  ASSERT_TRUE(done(0, transfer(0, plan::Kind::Recv, 0, kLarge, plan::Payload::Backward), 1));
  ASSERT_TRUE(done(1, back, 1));
  transfer(0, plan::Kind::Send, 0, 100);
  EXPECT_TRUE(done(1, forward, 1));
}

// With one queue for all, the second transfer stands behind the first: if a send could go before its receive is posted,
// the other end would get what it does not expect, or both would stand still.
TEST_P(TransportConformance, ASendWaitsForItsReceive) {
  if (!GetParam().rendezvous)
    GTEST_SKIP() << GetParam().name << " buffers small transfers";
  make();
  fill(ranks[0]->device(), half(0, plan::Payload::Forward, 1), std::byte(1));
  fill(ranks[1]->device(), half(1, plan::Payload::Backward, 1), std::byte(2));
  QueueId sent = transfer(0, plan::Kind::Send, 0, 1);
  // An exchange the other way takes far longer than a send that need not wait.
  transfer(1, plan::Kind::Send, 0, kLarge, plan::Payload::Backward);
  ASSERT_TRUE(done(0, transfer(0, plan::Kind::Recv, 0, kLarge, plan::Payload::Backward), 1));
  // The slot is still the sender's, and not read yet, so what arrives in it now is what is sent.
  const QueueId back = transferTo(1, plan::Kind::Send, 1, 1, plan::Payload::Backward, plan::Payload::Forward);
  ASSERT_TRUE(done(0, transferTo(0, plan::Kind::Recv, 1, 1, plan::Payload::Backward, plan::Payload::Forward), 2));
  ASSERT_TRUE(done(1, transfer(1, plan::Kind::Recv, 0, 1), 1));
  ASSERT_TRUE(done(1, back, 2));
  ASSERT_TRUE(done(0, sent, 1));
  EXPECT_EQ(bytesOf(ranks[1]->device(), half(1, plan::Payload::Forward, 1))[0], std::byte(2));
}

TEST_P(TransportConformance, ATransferWaitsForWhatItsQueueWaitsFor) {
  make();
  QueueId sent = find(0, plan::Kind::Send, plan::Payload::Forward).queue;
  QueueId back = transfer(0, plan::Kind::Recv, 0, 100, plan::Payload::Backward);
  issued[0].wait(ranks[0]->device(), sent, back, 1);
  transfer(0, plan::Kind::Send, 0, 100);
  QueueId received = transfer(1, plan::Kind::Recv, 0, 100);
  transfer(1, plan::Kind::Send, 0, 100, plan::Payload::Backward);
  EXPECT_TRUE(done(1, received, 1));
  EXPECT_TRUE(done(0, sent, 1));
}

TEST_P(TransportConformance, AnotherTransferThanTheExpectedEndsTheRun) {
  if (!GetParam().comparesTags)
    GTEST_SKIP() << GetParam().name << " has no tags";
  make();
  transfer(0, plan::Kind::Send, 3, 100);
  QueueId received = transfer(1, plan::Kind::Recv, 2, 100);
  EXPECT_FALSE(done(1, received, 1));
  EXPECT_FALSE(done(0, find(0, plan::Kind::Send, plan::Payload::Forward).queue, 1));
  EXPECT_EQ(ranks[0]->failure().status().code, Code::Run);
  EXPECT_NE(ranks[0]->failure().status().message.find("microbatch 3"), std::string::npos)
      << ranks[0]->failure().status().message;
}

TEST_P(TransportConformance, ALostPeerIsNamed) {
  if (!GetParam().noticesLoss)
    GTEST_SKIP() << GetParam().name << " has no connection to lose";
  make();
  QueueId received = transfer(1, plan::Kind::Recv, 0, 100);
  ranks[0]->vanish();
  EXPECT_FALSE(done(1, received, 1));
  std::string message = ranks[1]->failure().status().message;
  EXPECT_NE(message.find("rank 1"), std::string::npos) << message;
  EXPECT_NE(message.find("recv F"), std::string::npos) << message;
  EXPECT_NE(message.find("rank 0"), std::string::npos) << message;
}

TEST_P(TransportConformance, APeerThatDoesNotComeIsNamedAtTheDeadline) {
  make(50 * kMillisecond);
  EXPECT_FALSE(done(1, transfer(1, plan::Kind::Recv, 0, 100), 1));
  std::string message = ranks[1]->failure().status().message;
  EXPECT_NE(message.find("rank 0"), std::string::npos) << message;
  EXPECT_NE(message.find("0.05 s"), std::string::npos) << message;
  transfer(0, plan::Kind::Send, 0, 100); // nothing stays behind that other tests of this process could wait for
}

TEST_P(TransportConformance, AllHaveTheSumOfAll) {
  for (int32_t count : {2, 5}) {
    makeSums(count);
    for (int64_t step = 0; step < 3; ++step) {
      for (int32_t rank = 0; rank < count; ++rank)
        sum(rank, step);
      for (int32_t rank = 0; rank < count; ++rank) {
        ASSERT_TRUE(done(rank, 1, step + 1)) << ranks[size_t(rank)]->failure().status().message;
        EXPECT_EQ(ranks[size_t(rank)]->total(), count == 2 ? 11 : 11111);
      }
    }
  }
}

TEST_P(TransportConformance, ASumKeepsItsPlaceOnItsQueue) {
  makeSums(2);
  transfer(0, plan::Kind::Send, 0, 100);
  sum(0);
  transfer(0, plan::Kind::Send, 1, 100);
  transfer(1, plan::Kind::Recv, 0, 100);
  sum(1);
  transfer(1, plan::Kind::Recv, 1, 100);
  EXPECT_TRUE(done(0, 1, 3)) << ranks[0]->failure().status().message;
  EXPECT_TRUE(done(1, 1, 3)) << ranks[1]->failure().status().message;
  EXPECT_EQ(ranks[0]->total(), 11);
}

TEST_P(TransportConformance, ARankThatIsLostEndsTheSumOfAll) {
  if (!GetParam().noticesLoss)
    GTEST_SKIP() << GetParam().name << " has no connection to lose";
  makeSums(4);
  for (int32_t rank : {0, 1, 3})
    sum(rank);
  ranks[2]->vanish();
  for (int32_t rank : {1, 3}) // its neighbours
    EXPECT_FALSE(done(rank, 1, 1));
  EXPECT_NE(ranks[3]->failure().status().message.find("rank 3: all_reduce: lost rank 2"), std::string::npos)
      << ranks[3]->failure().status().message;
}

TEST_P(TransportConformance, ARankThatDoesNotComeToASumIsNamedAtTheDeadline) {
  std::string message;
  const char *expected = GetParam().knowsAbsent ? "rank 2 did not come to it within" : "all_reduce did not end within";
  for (const plan::Time deadline : {1, 10, 100}) { // seconds: one may be too short for the others to say that they came
    ranks.clear();
    slots.clear();
    makeSums(4, deadline * 1'000 * kMillisecond);
    for (int32_t rank : {0, 1, 3})
      sum(rank);
    for (int32_t rank : {0, 1, 3})
      EXPECT_FALSE(done(rank, 1, 1));
    message = ranks[0]->failure().status().message;
    sum(2); // as above
    if (message.find(expected) != std::string::npos)
      break;
  }
  EXPECT_NE(message.find(expected), std::string::npos) << message;
}

INSTANTIATE_TEST_SUITE_P(All, TransportConformance, testing::ValuesIn(transportImplementations()),
                         [](const auto &info) { return info.param.name; });

} // namespace
