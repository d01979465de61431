// Whoever else connects to a port of the job neither joins nor ends it, nor holds it up until it is shown out: noise,
// silence, scans, crowds, other jobs, and those who give back what they were told.
#include "runtime/transport/host/Meeting.h"
#include "test/Rounds.h"

#include <chrono>
#include <cstring>
#include <gtest/gtest.h>
#include <optional>
#include <sys/resource.h>
#include <thread>

using namespace pipec;
using namespace pipec::runtime;
using asio::ip::tcp;
using namespace std::chrono_literals;

namespace {

constexpr auto kPatience = 300s; // of those who meet

/// Rank 1 of two, which waits for rank 0 from the start, so that its port is open.
class StrangerTest : public testing::Test {
protected:
  StrangerTest() {
    tcp::acceptor acceptor(io);
    EXPECT_TRUE(listenOnLoopback(acceptor).ok());
    port = acceptor.local_endpoint();
    self.rank = 1;
    self.world = 2;
    self.secret.fill(7);
    thread = std::thread([this] { io.run(); });
    waiting = std::thread([this, acceptor = std::move(acceptor)]() mutable {
      status = meet(self, std::move(acceptor), {{0, {}}}, kPatience, sockets);
    });
  }
  ~StrangerTest() override {
    for (std::thread *each : {&waiting, &thread})
      if (each->joinable()) {
        if (each == &thread) {
          guard.reset();
          io.stop();
        }
        each->join();
      }
  }

  /// Rank 0 comes, and the two meet.
  void expectMeeting() {
    asio::io_context own;
    auto work = asio::make_work_guard(own);
    std::thread runs([&] { own.run(); });
    tcp::acceptor acceptor(own);
    EXPECT_TRUE(listenOnLoopback(acceptor).ok());
    Identity other = self;
    other.rank = 0;
    Sockets found;
    Status met = meet(other, std::move(acceptor), {{1, port}}, kPatience, found);
    EXPECT_TRUE(met.ok()) << met.message;
    waiting.join();
    EXPECT_TRUE(status.ok()) << status.message;
    EXPECT_EQ(sockets.size(), 1u);
    EXPECT_TRUE(sockets.count(0));
    found.clear();
    work.reset();
    own.stop();
    runs.join();
  }

  tcp::socket stranger() {
    tcp::socket socket(elsewhere);
    socket.connect(port);
    return socket;
  }

  /// What somebody says who takes itself for rank 0.
  static wire::Hello helloOf(uint32_t rank = 0) {
    wire::Hello hello;
    hello.rank = rank;
    hello.key = Exchange().publicKey();
    return hello;
  }

  static wire::Hello hear(tcp::socket &socket) {
    wire::Hello hello;
    asio::read(socket, asio::buffer(&hello, sizeof hello));
    return hello;
  }

  /// All that rank 1 ever answers to these bytes, to whose sender it then closes.
  std::string answerTo(const std::string &bytes) {
    tcp::socket socket = stranger();
    asio::write(socket, asio::buffer(bytes));
    socket.shutdown(tcp::socket::shutdown_send);
    std::string answer;
    std::error_code error;
    asio::read(socket, asio::dynamic_buffer(answer), error);
    EXPECT_EQ(error, asio::error::eof);
    return answer;
  }

  /// The other end has closed.
  static bool over(tcp::socket &socket) {
    std::error_code error;
    std::array<char, 256> rest;
    while (!error)
      socket.read_some(asio::buffer(rest), error);
    return error == asio::error::eof || error == asio::error::connection_reset;
  }

  Identity self;
  asio::io_context io, elsewhere;
  asio::executor_work_guard<asio::io_context::executor_type> guard = asio::make_work_guard(io);
  tcp::endpoint port;
  Sockets sockets;
  Status status;
  std::thread thread, waiting;
};

TEST_F(StrangerTest, Noise) {
  tcp::socket loud = stranger();
  asio::write(loud, asio::buffer(std::string(65'536, 'x')));
  tcp::socket web = stranger();
  asio::write(web, asio::buffer(std::string("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")));
  EXPECT_TRUE(over(loud));
  expectMeeting();
}

TEST_F(StrangerTest, HalfAHandshakeAndASilentOne) {
  tcp::socket half = stranger(), silent = stranger();
  wire::Hello hello;
  asio::write(half, asio::buffer(&hello, sizeof hello / 2));
  tcp::socket shut = stranger();
  shut.shutdown(tcp::socket::shutdown_send);
  EXPECT_TRUE(over(shut));
  expectMeeting();
}

TEST_F(StrangerTest, WhoSaysNothingIsShownOut) {
  tcp::socket silent = stranger();
  auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(over(silent));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 2s);
  expectMeeting();
}

TEST_F(StrangerTest, AScanOfThePort) {
  for (int i = 0; i < 200; ++i) {
    tcp::socket scan = stranger();
    if (i % 2) // with a reset
      scan.set_option(asio::socket_base::linger(true, 0));
  }
  expectMeeting();
}

template <typename T> std::string bytesOf(const T &what) {
  return {reinterpret_cast<const char *>(&what), sizeof what};
}

// Nothing at all to who does not speak the protocol; to who does, names and fresh random numbers; to a wrong proof, no.
TEST_F(StrangerTest, NothingMadeOfTheSecretIsSaidBeforeAProof) {
  const wire::Hello hello = helloOf();
  EXPECT_EQ(answerTo(""), "");
  EXPECT_EQ(answerTo("PIPERUN\n"), "");
  EXPECT_EQ(answerTo(std::string(sizeof hello, 'x')), "");
  std::string twice[2];
  for (std::string &answer : twice) {
    answer = answerTo(bytesOf(hello));
    ASSERT_EQ(answer.size(), sizeof hello);
    wire::Hello theirs, known;
    std::memcpy(&theirs, answer.data(), sizeof theirs);
    known.rank = 1;
    known.side = wire::Side::Accepts;
    known.key = theirs.key;
    known.nonce = theirs.nonce;
    EXPECT_EQ(answer, bytesOf(known));
  }
  wire::Hello one, two;
  std::memcpy(&one, twice[0].data(), sizeof one);
  std::memcpy(&two, twice[1].data(), sizeof two);
  EXPECT_NE(one.key, two.key);
  EXPECT_NE(one.nonce, two.nonce);
  for (int i = 0; i < 3; ++i) {
    std::string answer = answerTo(bytesOf(hello) + bytesOf(wire::Proof{uint8_t(i)}));
    ASSERT_EQ(answer.size(), sizeof hello + sizeof(wire::Answer));
    EXPECT_EQ(answer.substr(sizeof hello), bytesOf(wire::Answer{})); // refused, and 32 zeros
  }
  expectMeeting();
}

TEST_F(StrangerTest, WhatIsNoKeyIsRefused) {
  wire::Hello hello = helloOf();
  hello.key = {}; // of which nothing secret can be made
  EXPECT_EQ(answerTo(bytesOf(hello)).size(), sizeof hello);
  expectMeeting();
}

// It looks like the rank that is expected, but its proof cannot be right.
TEST_F(StrangerTest, AGuessedSecret) {
  asio::io_context own;
  tcp::socket socket(own);
  socket.connect(port);
  Identity other = self;
  other.rank = 0;
  other.secret.fill(9);
  std::optional<Greeting> greeting;
  asio::co_spawn(own, greet(socket, other, wire::Side::Dials),
                 [&](std::exception_ptr, Greeting g) { greeting = std::move(g); });
  own.run();
  ASSERT_TRUE(greeting);
  EXPECT_TRUE(greeting->stranger && greeting->sameJob);
  EXPECT_NE(greeting->status.message.find("the secret differs"), std::string::npos) << greeting->status.message;
  EXPECT_TRUE(over(socket));
  expectMeeting();
}

TEST_F(StrangerTest, AnEchoProvesNothing) {
  tcp::socket echo = stranger();
  asio::write(echo, asio::buffer(bytesOf(helloOf())));
  wire::Hello hello = hear(echo);
  asio::write(echo, asio::buffer(hello.nonce));
  EXPECT_TRUE(over(echo));
  EXPECT_EQ(answerTo(bytesOf(hello)), ""); // it says that it was called
  hello.side = wire::Side::Dials;
  EXPECT_EQ(answerTo(bytesOf(hello) + bytesOf(hello.key)).size(), sizeof hello + sizeof(wire::Answer));
  expectMeeting();
}

TEST_F(StrangerTest, AnotherJobWithTheSameSecretAndAnotherPlan) {
  asio::io_context own;
  tcp::socket socket(own);
  socket.connect(port);
  Identity other = self;
  other.rank = 0;
  other.job.fill(9);
  other.plan.fill(9);
  std::optional<Greeting> greeting;
  asio::co_spawn(own, greet(socket, other, wire::Side::Dials),
                 [&](std::exception_ptr, Greeting g) { greeting = std::move(g); });
  own.run();
  ASSERT_TRUE(greeting);
  EXPECT_TRUE(greeting->stranger && !greeting->sameJob);
  EXPECT_NE(greeting->status.message.find("the job id differs"), std::string::npos) << greeting->status.message;
  expectMeeting();
}

// Silent ones who stay: a tenth of the crowd that tools/soak brings. One after the other they would take the patience
// of those who meet many times over.
TEST_F(StrangerTest, ACrowd) {
  size_t crowd = test::soaks() ? 10'000 : 1'000;
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_cur < crowd + 600)
    GTEST_SKIP() << "no more than " << files.rlim_cur << " files may be open here";
  std::vector<tcp::socket> sockets;
  for (size_t i = 0; i < crowd; ++i)
    sockets.push_back(stranger());
  expectMeeting();
}

} // namespace
