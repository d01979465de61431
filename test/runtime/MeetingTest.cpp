// Meetings in one process: two ranks over loopback that agree, or differ in one thing.
#include "runtime/transport/host/Meeting.h"

#include <gtest/gtest.h>
#include <thread>

using namespace pipec;
using namespace pipec::runtime;
using asio::ip::tcp;

namespace {

/// A rank that listens, with its own io thread.
struct Rank {
  explicit Rank(int32_t rank, int32_t world = 2) : acceptor(io) {
    identity.rank = rank;
    identity.world = world;
    identity.secret.fill(7);
    EXPECT_TRUE(listenOnLoopback(acceptor).ok());
    port = acceptor.local_endpoint();
    thread = std::thread([this] { io.run(); });
  }
  ~Rank() {
    guard.reset();
    io.stop();
    thread.join();
  }
  Status meet(const std::map<int32_t, tcp::endpoint> &peers, int milliseconds = 300'000) {
    return runtime::meet(identity, std::move(acceptor), peers, std::chrono::milliseconds(milliseconds), sockets);
  }

  /// As messages name it when it is called, and what it is said to have there.
  std::string at(const std::string &has) const {
    return "rank " + std::to_string(identity.rank) + " at 127.0.0.1:" + std::to_string(port.port()) + " has " + has;
  }

  Identity identity;
  asio::io_context io;
  asio::executor_work_guard<asio::io_context::executor_type> guard = asio::make_work_guard(io);
  tcp::acceptor acceptor;
  tcp::endpoint port;
  Sockets sockets;
  std::thread thread;
};

/// Both ends' answers.
std::pair<Status, Status> meetBoth(Rank &low, Rank &high, int milliseconds = 300'000) {
  Status ofHigh;
  std::thread other([&] { ofHigh = high.meet({{0, low.port}}, milliseconds); });
  Status ofLow = low.meet({{1, high.port}}, milliseconds);
  other.join();
  return {ofLow, ofHigh};
}

void expectParts(const Status &status, const std::vector<std::string> &parts) {
  EXPECT_EQ(status.code, Code::Run);
  for (const std::string &part : parts)
    EXPECT_NE(status.message.find(part), std::string::npos) << status.message;
}

/// A mistake in the job: both ends end at once and name both values.
void expectRefused(Rank &low, Rank &high, const std::vector<std::string> &parts) {
  auto [a, b] = meetBoth(low, high);
  expectParts(a, parts);
  expectParts(b, parts);
}

/// Who does not belong to the job: it hears why; the other end goes on waiting for those it expects, and says at its
/// deadline who came instead. Tries with more and more time, as a machine may be too slow for any.
void expectShownOut(const Rank &one, const Rank &other, std::vector<std::string> parts) {
  std::pair<Status, Status> said;
  for (const int milliseconds : {200, 2'000, 20'000, 200'000}) {
    Rank low(0), high(1);
    low.identity = one.identity;
    high.identity = other.identity;
    said = meetBoth(low, high, milliseconds);
    if (said.second.message.find("was refused") != std::string::npos)
      break;
  }
  expectParts(said.first, parts);
  parts.push_back("rank 1: rank 0 did not come to the meeting within ");
  parts.push_back(" s; one that came was refused: ");
  expectParts(said.second, parts);
}

TEST(Meeting, TwoThatAgreeMeet) {
  Rank low(0), high(1);
  auto [a, b] = meetBoth(low, high);
  EXPECT_TRUE(a.ok()) << a.message;
  EXPECT_TRUE(b.ok()) << b.message;
  EXPECT_EQ(low.sockets.count(1), 1u);
  EXPECT_EQ(high.sockets.count(0), 1u);
}

TEST(Meeting, NobodyToMeet) {
  Rank alone(0, 1);
  EXPECT_TRUE(alone.meet({}).ok());
}

TEST(Meeting, AnotherProtocol) {
  Rank low(0), high(1);
  high.identity.protocol = wire::kProtocol + 1;
  expectShownOut(low, high,
                 {"the protocol version differs: rank 0 at 127.0.0.1 has " + std::to_string(wire::kProtocol) +
                      ", rank 1 at 127.0.0.1:",
                  " has 9"});
}

TEST(Meeting, AnotherJob) {
  Rank low(0), high(1);
  low.identity.job.fill(0xab);
  high.identity.job.fill(0xcd);
  expectShownOut(
      low, high,
      {"the job id differs: rank 0 at 127.0.0.1 has abababababababab, rank 1 at 127.0.0.1:", " has cdcdcdcdcdcdcdcd"});
}

TEST(Meeting, AnotherWorldSize) {
  Rank low(0, 2), high(1, 4);
  expectRefused(low, high, {"the world size differs: rank 0 at 127.0.0.1 has 2, " + high.at("4")});
}

TEST(Meeting, AnotherPlan) {
  Rank low(0), high(1);
  low.identity.plan.fill(0x12);
  high.identity.plan.fill(0x34);
  expectRefused(low, high,
                {"the plan differs: rank 0 at 127.0.0.1 has 1212121212121212, " + high.at("3434343434343434")});
}

TEST(Meeting, OtherSteps) {
  Rank low(0), high(1);
  low.identity.steps = 100;
  high.identity.steps = 200;
  expectRefused(low, high, {"the number of steps (--steps) differs: rank 0 at 127.0.0.1 has 100, " + high.at("200")});
}

TEST(Meeting, AnotherSecret) {
  Rank low(0), high(1);
  high.identity.secret.fill(8);
  expectShownOut(
      low, high,
      {"the secret differs: rank 0 at 127.0.0.1 and rank 1 at 127.0.0.1:", " have not the same PIPEC_SECRET"});
}

TEST(Meeting, ASecretAndNone) {
  Rank low(0), high(1);
  low.identity.guarded = false;
  expectShownOut(low, high,
                 {"the secret differs: rank 0 at 127.0.0.1 has none (--no-secret), rank 1 at 127.0.0.1:", " has one"});
}

TEST(Meeting, WithoutASecretThereAreKeysAllTheSame) {
  Rank low(0), high(1);
  for (Rank *each : {&low, &high}) {
    each->identity.guarded = false;
    each->identity.secret = {};
  }
  auto [a, b] = meetBoth(low, high);
  ASSERT_TRUE(a.ok() && b.ok()) << a.message << b.message;
  Session &from = low.sockets.at(1).session, &to = high.sockets.at(0).session;
  std::vector<uint8_t> text(32 + from.out.extra(), 'x');
  const std::vector<uint8_t> before = text;
  from.out.close(text);
  EXPECT_NE(text, before);
  EXPECT_TRUE(to.in.open(text));
  EXPECT_TRUE(std::equal(text.begin(), text.begin() + 32, before.begin()));
}

TEST(Meeting, AnotherRankThanExpected) {
  std::string said;
  for (const int milliseconds : {500, 5'000, 50'000}) { // rank 2 waits for so long, and rank 0 may come too late
    Rank low(0, 3), high(2, 3);
    std::thread other([&] { (void)high.meet({{0, low.port}}, milliseconds); });
    said = low.meet({{1, high.port}}, milliseconds).message;
    other.join();
    if (said.find("reached") != std::string::npos)
      break;
  }
  EXPECT_EQ(said, "rank 0: reached rank 2 where rank 1 was expected");
}

TEST(Meeting, TheDeadlineNamesWhoIsMissing) {
  Rank high(2, 3);
  Status status = high.meet({{0, {}}, {1, {}}}, 100);
  EXPECT_EQ(status.code, Code::Run);
  EXPECT_EQ(status.message, "rank 2: rank 0, rank 1 did not come to the meeting within 0.1 s");
}

} // namespace
