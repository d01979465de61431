// Messages on a pipe whose reader stands still, goes on and leaves.
#include "runtime/launch/MessageStream.h"

#include <csignal>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace pipec::runtime;

namespace {

constexpr int kMessages = 1000;

class MessageStreamTest : public testing::TestWithParam<bool> {
protected:
  void SetUp() override {
    if (GetParam())
      ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    else
      ASSERT_EQ(::pipe(ends), 0);
    ASSERT_EQ(::fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
  }
  void TearDown() override {
    ::close(ends[0]);
    ::close(ends[1]);
  }

  static std::string message(int number) { return "message " + std::to_string(number) + std::string(1000, '.') + "\n"; }

  std::string read() const {
    std::string text(1 << 20, 0);
    size_t length = 0;
    for (ssize_t got; (got = ::read(ends[0], text.data() + length, text.size() - length)) > 0;)
      length += size_t(got);
    return text.substr(0, length);
  }

  int ends[2] = {-1, -1};
};

TEST_P(MessageStreamTest, AReaderThatStandsStillHoldsNobody) {
  MessageStream stream(ends[1], "piperun");
  for (int i = 0; i < kMessages; ++i)
    stream.write(message(i));
  EXPECT_EQ(::fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0); // others share it
  std::string text = read();
  stream.finish("the end\n");
  text += read();
  std::string whole;
  int written = 0;
  while (text.starts_with(whole + message(written)))
    whole += message(written++);
  EXPECT_GT(written, 0);
  EXPECT_LT(written, kMessages);
  EXPECT_EQ(text.substr(whole.size()), "piperun: " + std::to_string(kMessages - written) +
                                           " messages were left out here: nobody read standard error\nthe end\n");
}

TEST_P(MessageStreamTest, AReaderThatGoesOnHearsWhatComesThen) {
  MessageStream stream(ends[1], "piperun");
  for (int i = 0; i < kMessages; ++i)
    stream.write(message(i));
  read();
  for (int i = 0; i < 3; ++i)
    stream.write(message(i));
  stream.finish();
  EXPECT_TRUE(read().ends_with("nobody read standard error\n" + message(0) + message(1) + message(2)));
}

TEST_P(MessageStreamTest, AReaderThatHasLeftIsNoError) {
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  MessageStream stream(ends[1], "piperun");
  ::close(std::exchange(ends[0], -1));
  for (int i = 0; i < kMessages; ++i)
    stream.write(message(i));
  stream.finish("the end\n");
  std::signal(SIGPIPE, before);
}

INSTANTIATE_TEST_SUITE_P(PipesAndSockets, MessageStreamTest, testing::Bool(),
                         [](const auto &param) { return param.param ? "Socket" : "Pipe"; });

} // namespace
