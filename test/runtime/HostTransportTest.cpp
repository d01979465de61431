// Two ranks of a transport in one process, over loopback: what a transfer promises, and how a peer's end is noticed.
#include "runtime/transport/host/HostTransport.h"

#include "runtime/launch/waits/Watch.h"
#include "test/runtime/Plans.h"

#include <gtest/gtest.h>
#include <thread>

using namespace pipec;
using namespace pipec::runtime;
using asio::ip::tcp;

namespace {

constexpr plan::Time kMillisecond = 1'000'000'000, kHour = 3'600'000 * kMillisecond;
constexpr QueueId kForward = 1; // rank 0 sends, rank 1 receives

/// One rank of two, with its io thread; its device queues stay empty.
struct Rank {
  Rank(const plan::Program &program, const Clock &clock, tcp::socket socket, std::unique_ptr<asio::io_context> own,
       HostTransport::Options options, plan::Time deadline)
      : program(program), io(std::move(own)), device(program, clock, failure, true),
        watch(*io, {program.rank, 2, ""}, deadline,
              {[this, deadline] { return transport->waits(deadline); },
               [this](const std::string &why) { failure.raise(Status::run(why)); },
               {},
               {}}) {
    Sockets sockets;
    sockets.emplace(1 - program.rank, std::move(socket));
    transport = std::make_unique<HostTransport>(program, std::move(sockets), *io, device, clock, failure, options);
    memory.resize(size_t(1) << 20);
  }
  ~Rank() { end(); }
  void start() {
    transport->start();
    watch.start();
    thread = std::thread([this] { io->run(); });
  }
  void end() { // as if the process had gone
    guard.reset();
    io->stop();
    if (thread.joinable())
      thread.join();
    transport.reset();
  }
  Label label(plan::Kind kind, int64_t microbatch, plan::Payload of = plan::Payload::Forward) const {
    for (const plan::Operation &op : program.operations)
      if (op.kind == kind && op.of == of)
        return {&op, microbatch, 0, 0};
    ADD_FAILURE();
    return {};
  }
  void send(int64_t m, plan::Bytes bytes) {
    transport->send(kForward, label(plan::Kind::Send, m), {memory.data(), bytes}, {});
  }
  void recv(int64_t m, plan::Bytes bytes) {
    transport->recv(kForward, label(plan::Kind::Recv, m), {memory.data(), bytes});
  }

  const plan::Program &program;
  Failure failure;
  std::unique_ptr<asio::io_context> io;
  asio::executor_work_guard<asio::io_context::executor_type> guard = asio::make_work_guard(*io);
  HostDevice device;
  std::unique_ptr<HostTransport> transport;
  Watch watch;
  std::vector<std::byte> memory;
  std::thread thread;
};

class HostTransportTest : public testing::TestWithParam<Pace> {
protected:
  void make(const test::Pipeline &pipeline, plan::Time deadline = 0, const simulate::Scenario *network = nullptr,
            bool realNetwork = false) {
    plan = test::makePlan(pipeline);
    auto first = std::make_unique<asio::io_context>(), second = std::make_unique<asio::io_context>();
    tcp::acceptor acceptor(*first, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
    tcp::socket a(*first), b(*second);
    b.connect(acceptor.local_endpoint());
    acceptor.accept(a);
    HostTransport::Options options{GetParam(), network, realNetwork};
    const auto &programs = plan.variants.front().programs;
    sender = std::make_unique<Rank>(programs[0], clock, std::move(a), std::move(first), options, deadline);
    options.meter = &meter;
    receiver = std::make_unique<Rank>(programs[1], clock, std::move(b), std::move(second), options, deadline);
    sender->start();
    receiver->start();
  }
  static test::Pipeline fast() {
    test::Pipeline p;
    p.wire = p.latency = 0;
    return p;
  }

  plan::Plan plan;
  Clock clock{Clock::monotonic()};
  Meter meter{1};
  std::unique_ptr<Rank> sender, receiver;
};

TEST_P(HostTransportTest, DataArriveInOrderAndWhole) {
  make(fast());
  for (int64_t m = 0; m < 4; ++m) {
    std::fill(sender->memory.begin(), sender->memory.end(), std::byte(m + 1));
    sender->send(m, 300'000);
    receiver->recv(m, 300'000);
    ASSERT_TRUE(receiver->device.synchronize(kForward, m + 1));
    ASSERT_TRUE(sender->device.synchronize(kForward, m + 1));
    EXPECT_EQ(receiver->memory[0], std::byte(m + 1));
    EXPECT_EQ(receiver->memory[299'999], std::byte(m + 1));
    EXPECT_EQ(receiver->memory[300'000], std::byte(0));
  }
}

TEST_P(HostTransportTest, AnEmptyTransferIsATransfer) {
  make(fast());
  sender->send(0, 0);
  receiver->recv(0, 0);
  EXPECT_TRUE(receiver->device.synchronize(kForward, 1));
  EXPECT_TRUE(sender->device.synchronize(kForward, 1));
}

// Rendezvous: nothing leaves before its receive is posted, so the payload is what the slot holds then.
TEST_P(HostTransportTest, NothingIsSentBeforeItsReceive) {
  make(fast());
  sender->memory[0] = std::byte(1);
  sender->send(0, 1);
  receiver->recv(0, 1); // once this is through, the sender stands at its second send
  ASSERT_TRUE(sender->device.synchronize(kForward, 1));
  sender->send(1, 1);
  sender->memory[0] = std::byte(2);
  receiver->recv(1, 1);
  ASSERT_TRUE(receiver->device.synchronize(kForward, 2));
  EXPECT_EQ(receiver->memory[0], std::byte(2));
}

TEST_P(HostTransportTest, TheWireTakesItsTime) {
  test::Pipeline p;
  p.wire = 20 * kMillisecond;
  p.latency = 10 * kMillisecond;
  make(p);
  sender->send(0, 10);
  receiver->recv(0, 10);
  ASSERT_TRUE(sender->device.synchronize(kForward, 1));
  EXPECT_GE(clock.now(), 20 * kMillisecond);
  ASSERT_TRUE(receiver->device.synchronize(kForward, 1));
  std::vector<Recorder> records = receiver->device.recorders();
  ASSERT_EQ(records[kForward].events().size(), 1u);
  EXPECT_GE(records[kForward].events()[0].end, 30 * kMillisecond);
}

// On a real network what is measured begins when the first byte is there. The receive may have waited for its send for
// long, which is no part of it, nor of the latency: half of the round trip of the receive's credit and the first byte.
TEST_P(HostTransportTest, WaitingForTheSendIsNotMeasured) {
  constexpr plan::Bytes kBytes = 300'000;
  make(fast(), 0, nullptr, true);
  bool isHalf = false;
  int64_t m = 0;
  for (plan::Time wait = 20 * kMillisecond; !isHalf && wait <= 20'000 * kMillisecond; wait *= 10) { // a slow machine
    const plan::Time posted = clock.now();
    receiver->recv(m, kBytes);
    clock.sleepUntil(posted + wait);
    const plan::Time sent = clock.now();
    sender->send(m, kBytes);
    ASSERT_TRUE(receiver->device.synchronize(kForward, m + 1));
    const plan::Time end = clock.now();
    const std::vector<adapt::Sample> samples = meter.take(0).samples;
    ASSERT_EQ(samples.size(), 1u);
    EXPECT_EQ(std::pair(samples[0].from, samples[0].to), std::pair(0, 1));
    const adapt::Tally &tally = samples[0].tally;
    EXPECT_EQ(tally.count, 1);
    EXPECT_EQ(tally.bytes, kBytes);
    EXPECT_GE(tally.sum, tally.planned);
    EXPECT_LE(tally.sum - tally.planned, end - sent);
    EXPECT_GE(samples[0].end, sent);
    EXPECT_LE(samples[0].end, end);
    EXPECT_GE(tally.planned, 0);
    isHalf = tally.planned < wait / 4;
    ++m;
  }
  EXPECT_TRUE(isHalf);
}

// Where the wire is emulated its deadlines are what is measured, exactly.
TEST_P(HostTransportTest, DeadlinesAreWhatIsMeasured) {
  test::Pipeline p;
  p.wire = 20 * kMillisecond;
  p.latency = 10 * kMillisecond;
  make(p);
  sender->send(0, 10);
  receiver->recv(0, 10);
  ASSERT_TRUE(receiver->device.synchronize(kForward, 1));
  const std::vector<adapt::Sample> samples = meter.take(0).samples;
  ASSERT_EQ(samples.size(), 1u);
  EXPECT_EQ(samples[0].tally.sum, 30 * kMillisecond);
  EXPECT_EQ(samples[0].tally.planned, 10 * kMillisecond);
}

TEST_P(HostTransportTest, AnotherTransferThanExpectedNamesBoth) {
  make(fast());
  sender->send(3, 10);
  receiver->recv(2, 10);
  EXPECT_FALSE(sender->device.synchronize(kForward, 1));
  EXPECT_EQ(sender->failure.status().message,
            "rank 0: send F stage 0 microbatch 3 to rank 1: rank 1 is at F of stage 0 microbatch 2 in step 0 epoch 0, "
            "this rank at F of stage 0 microbatch 3 in step 0 epoch 0");
  EXPECT_FALSE(receiver->device.synchronize(kForward, 1));
  EXPECT_EQ(receiver->failure.status().message,
            "rank 1: recv F stage 1 microbatch 2 from rank 0: rank 0 ended the run: " +
                sender->failure.status().message);
}

TEST_P(HostTransportTest, OtherSizesThanExpectedAreRefused) {
  make(fast());
  sender->send(0, 10);
  receiver->recv(0, 12);
  EXPECT_FALSE(receiver->device.synchronize(kForward, 1));
  EXPECT_EQ(receiver->failure.status().message,
            "rank 1: recv F stage 1 microbatch 0 from rank 0: rank 0 sent 10 bytes where 12 were expected");
}

TEST_P(HostTransportTest, APeerThatGoesIsNoticed) {
  make(fast());
  receiver->recv(0, 10);
  sender->end();
  EXPECT_FALSE(receiver->device.synchronize(kForward, 1));
  EXPECT_EQ(receiver->failure.status().message,
            "rank 1: recv F stage 1 microbatch 0 from rank 0: lost rank 0: it closed the connection");
}

TEST_P(HostTransportTest, APeerMayGoOnceTheRunIsDone) {
  make(fast());
  sender->send(0, 10);
  receiver->recv(0, 10);
  ASSERT_TRUE(receiver->device.synchronize(kForward, 1));
  ASSERT_TRUE(sender->device.synchronize(kForward, 1));
  receiver->transport->rest();
  sender->end();
  EXPECT_FALSE(receiver->failure.raised());
}

TEST_P(HostTransportTest, APeerThatDoesNotComeIsNamedAtTheDeadline) {
  make(fast(), 50 * kMillisecond);
  sender->send(0, 10);
  EXPECT_FALSE(sender->device.synchronize(kForward, 1));
  EXPECT_EQ(sender->failure.status().message,
            "rank 0: send F stage 0 microbatch 0 to rank 1: rank 1 did not come to it within 0.05 s");
}

TEST_P(HostTransportTest, AWaitThatIsNotMetEndsAtTheDeadline) {
  make(fast(), 50 * kMillisecond);
  sender->device.wait(kForward, 0, 1);
  sender->send(0, 10);
  EXPECT_FALSE(sender->device.synchronize(kForward, 1));
  EXPECT_EQ(sender->failure.status().message,
            "rank 0: send F stage 0 microbatch 0 to rank 1 waits for queue 0, which did not end within 0.05 s");
}

// Whole payloads travel, and what the scenario says of the link counts, not what the plan says.
TEST_P(HostTransportTest, AScenarioTakesThePlaceOfThePlansWire) {
  test::Pipeline p;
  p.wire = p.latency = kHour;
  p.bytes = 1'000'000;
  simulate::Scenario network;
  network.links[{0, 1}] = {{0, 100'000'000, 20 * kMillisecond}}; // 10 ms for a transfer
  make(p, 0, &network);
  std::fill(sender->memory.begin(), sender->memory.end(), std::byte(7));
  for (int64_t m = 0; m < 2; ++m) {
    sender->send(m, 1'000'000);
    receiver->recv(m, 1'000'000);
  }
  ASSERT_TRUE(sender->device.synchronize(kForward, 2));
  EXPECT_GE(clock.now(), 20 * kMillisecond);
  ASSERT_TRUE(receiver->device.synchronize(kForward, 2));
  EXPECT_EQ(receiver->memory[999'999], std::byte(7));
  std::vector<Recorder> records = receiver->device.recorders();
  ASSERT_EQ(records[kForward].events().size(), 2u);
  EXPECT_GE(records[kForward].events()[0].end, 30 * kMillisecond);
  EXPECT_GE(records[kForward].events()[1].end, 40 * kMillisecond);
  EXPECT_LT(records[kForward].events()[1].end, kHour);
}

TEST_P(HostTransportTest, OnARealNetworkNothingIsEmulated) {
  test::Pipeline p;
  p.wire = p.latency = kHour;
  make(p, 0, nullptr, true);
  sender->send(0, 100);
  receiver->recv(0, 100);
  ASSERT_TRUE(receiver->device.synchronize(kForward, 1));
  ASSERT_TRUE(sender->device.synchronize(kForward, 1));
  EXPECT_LT(clock.now(), kHour);
  std::vector<Recorder> records = receiver->device.recorders();
  EXPECT_LT(records[kForward].events().at(0).end, kHour);
}

// Nobody closes anything: the network just goes silent, whether or not something is on its way.
TEST_P(HostTransportTest, ASilentCutIsNoticedByBothEnds) {
  simulate::Scenario network;
  network.cuts[{0, 1}] = 20 * kMillisecond;
  make(fast(), 0, &network);
  receiver->recv(0, 10); // and nothing is sent
  for (Rank *each : {sender.get(), receiver.get()}) {
    EXPECT_FALSE(each->device.synchronize(kForward, 1));
    EXPECT_GE(clock.now(), 2'000 * kMillisecond);
    EXPECT_NE(each->failure.status().message.find("the network to it has been silent for 3 s"), std::string::npos)
        << each->failure.status().message;
  }
}

TEST_P(HostTransportTest, WhatACutSwallowsIsNoticed) {
  simulate::Scenario network;
  network.links[{0, 1}] = {{0, 1'000'000, 0}}; // a second for a transfer
  network.cuts[{0, 1}] = 20 * kMillisecond;
  make(fast(), 0, &network);
  sender->send(0, 1'000'000);
  receiver->recv(0, 1'000'000);
  EXPECT_FALSE(sender->device.synchronize(kForward, 1));
  EXPECT_FALSE(receiver->device.synchronize(kForward, 1));
  EXPECT_NE(receiver->failure.status().message.find("rank 1: recv F stage 1 microbatch 0 from rank 0: lost rank 0: "),
            std::string::npos)
      << receiver->failure.status().message;
}

// The neighbour has come, so it is not the one to name; whoever knows better has twice the deadline to say so.
TEST(HostTransport, AnAllReduceThatNobodyNamesIsOverdueAtTwiceTheDeadline) {
  struct Number final : Summand {
    void gradientNorm(QueueId, const Label &, Slot, const Then &then) override { then(); }
    void setGlobalNorm(QueueId, const Label &, Slot, const Then &then) override { then(); }
  } number;
  test::Pipeline p;
  p.ranks = 3;
  plan::Plan plan = test::makePlan(p);
  const plan::Program &program = plan.variants.front().programs[0];
  const plan::Operation reduce{plan::Kind::AllReduce, plan::Payload::None, 0, -1, 0, 0, 8, 0, 0};
  const Label label{&reduce, 0, 0, 0};
  Clock clock{Clock::monotonic()};
  Failure failure;
  asio::io_context io;
  tcp::acceptor acceptor(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  Sockets own;
  std::vector<tcp::socket> others; // of ranks 1 and 2
  for (int32_t rank = 1; rank < 3; ++rank) {
    tcp::socket here(io), there(io);
    there.connect(acceptor.local_endpoint());
    acceptor.accept(here);
    own.emplace(rank, std::move(here));
    others.push_back(std::move(there));
  }
  HostDevice device(program, clock, failure, false);
  HostTransport::Options options{.pace = Pace::Real, .processes = 3};
  HostTransport transport(program, std::move(own), io, device, clock, failure, options);
  transport.allReduce(kForward, label, number);
  wire::Frame here;
  here.type = wire::Type::Here;
  here.tag = wire::tagOf(label);
  asio::write(others[1], asio::buffer(&here, sizeof here));
  transport.start();
  const std::string expected = "rank 0: all_reduce: not all ranks came to it";
  std::vector<Wait> waits;
  for (; waits.empty() || waits[0].late() != expected; waits = transport.waits(0)) // first it names the neighbour
    io.poll();
  EXPECT_EQ(waits[0].whom, std::vector<int32_t>{2}); // who knows whom that one waits for
}

/// A machine that cannot keep up with what it emulates: deadlines are an hour old when transfers begin.
TEST(HostTransportOfOne, ARunThatLagsIsNotOverdue) {
  const plan::Plan plan = test::makePlan({});
  const plan::Program &program = plan.variants.front().programs[0];
  Clock clock{Clock::monotonic() - kHour / 1000};
  Failure failure;
  asio::io_context io;
  tcp::acceptor acceptor(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  tcp::socket here(io), there(io);
  there.connect(acceptor.local_endpoint());
  acceptor.accept(here);
  Sockets own;
  own.emplace(1, std::move(here));
  HostDevice device(program, clock, failure, false);
  HostTransport transport(program, std::move(own), io, device, clock, failure, {.pace = Pace::Carry, .processes = 2});
  std::vector<std::byte> payload(size_t(64) << 20); // more than sockets hold: it stays under way
  const auto send = std::find_if(program.operations.begin(), program.operations.end(),
                                 [](const plan::Operation &op) { return op.kind == plan::Kind::Send; });
  const Label label{&*send, 0, 0, 0};
  transport.send(kForward, label, {payload.data(), plan::Bytes(payload.size())}, {});
  wire::Frame credit;
  credit.type = wire::Type::Credit;
  credit.tag = wire::tagOf(label);
  asio::write(there, asio::buffer(&credit, sizeof credit));
  transport.start();
  while (there.available() == 0)
    io.poll();
  for (const Wait &wait : transport.waits(kHour / 60))
    EXPECT_LT((Clock::monotonic() - wait.since) * 1000, kHour / 2) << wait.late();
}

INSTANTIATE_TEST_SUITE_P(Paces, HostTransportTest, testing::Values(Pace::Carry, Pace::Naive),
                         [](const auto &info) { return info.param == Pace::Carry ? "Carry" : "Naive"; });

} // namespace
