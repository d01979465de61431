// Whoever else connects to a port of the job neither joins nor ends it, nor holds it up until it is shown out: noise,
// silence, scans, crowds, other jobs, and those who give back what they were told.
#include "runtime/transport/host/Meeting.h"

#include <chrono>
#include <cstdlib>
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

  /// What rank 1 says to whoever connects.
  static wire::Hello hear(tcp::socket &socket) {
    wire::Hello hello;
    asio::read(socket, asio::buffer(&hello, sizeof hello));
    return hello;
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

// It looks like the rank that is expected, but its proof cannot be right.
TEST_F(StrangerTest, AGuessedSecret) {
  tcp::socket guess = stranger();
  wire::Hello hello = hear(guess);
  hello.rank = 0;
  hello.side = wire::Side::Dials;
  wire::Proof proof{};
  asio::write(guess, asio::buffer(&hello, sizeof hello));
  asio::write(guess, asio::buffer(proof));
  EXPECT_TRUE(over(guess));
  expectMeeting();
}

TEST_F(StrangerTest, AnEchoProvesNothing) {
  tcp::socket echo = stranger();
  wire::Hello hello = hear(echo);
  asio::write(echo, asio::buffer(&hello, sizeof hello));
  EXPECT_TRUE(over(echo));

  // Two connections, each given what the other was told.
  tcp::socket one = stranger(), two = stranger();
  wire::Hello first = hear(one), second = hear(two);
  first.rank = second.rank = 0;
  first.side = second.side = wire::Side::Dials;
  asio::write(one, asio::buffer(&second, sizeof second));
  asio::write(two, asio::buffer(&first, sizeof first));
  wire::Proof ofOne, ofTwo;
  asio::read(one, asio::buffer(ofOne));
  asio::read(two, asio::buffer(ofTwo));
  asio::write(one, asio::buffer(ofTwo));
  asio::write(two, asio::buffer(ofOne));
  EXPECT_TRUE(over(one));
  EXPECT_TRUE(over(two));
  expectMeeting();
}

TEST_F(StrangerTest, AnotherJobWithTheSameSecretAndAnotherPlan) {
  for (bool job : {true, false}) {
    asio::io_context own;
    tcp::socket socket(own);
    socket.connect(port);
    Identity other = self;
    other.rank = 0;
    if (job)
      other.job.fill(9);
    else
      other.secret.fill(9); // of nobody who knows the secret
    other.plan.fill(9);
    std::optional<Greeting> greeting;
    asio::co_spawn(own, greet(socket, other, wire::Side::Dials), [&](std::exception_ptr, Greeting g) { greeting = g; });
    own.run();
    ASSERT_TRUE(greeting);
    EXPECT_TRUE(greeting->stranger);
    EXPECT_NE(greeting->status.message.find(job ? "the job id differs" : "the secret differs"), std::string::npos)
        << greeting->status.message;
  }
  expectMeeting();
}

// Silent ones who stay: a tenth of the crowd that tools/soak brings. One after the other they would take the patience
// of those who meet many times over.
TEST_F(StrangerTest, ACrowd) {
  size_t crowd = std::getenv("PIPEC_SOAK") ? 10'000 : 1'000;
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
