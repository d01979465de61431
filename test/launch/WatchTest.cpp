// Processes that ask each other why they wait: each is played, all on one thread.
#include "runtime/launch/waits/Watch.h"

#include "runtime/device/Clock.h"
#include "runtime/launch/waits/Doing.h"

#include <gtest/gtest.h>
#include <memory>

using namespace pipec;
using namespace pipec::runtime;

namespace {

constexpr plan::Time kDeadline = 20'000'000'000; // 20 ms
constexpr int64_t kSecond = 1'000'000'000, kHour = 3600 * kSecond;

class Net {
public:
  struct Process {
    std::unique_ptr<Watch> watch;
    std::vector<int32_t> whom; // it waits for them
    messages::Does does;
    bool still = false; // it does not answer
    bool patient = false;
    int asked = 0; // messages that it got
  };

  explicit Net(int32_t processes, plan::Time deadline = kDeadline) : all(size_t(processes) + 1) {
    for (int32_t p = kController; p < processes; ++p)
      at(p).watch = std::make_unique<Watch>(
          io, Watch::Self{p, processes, title(p)}, deadline,
          Watch::Owner{[this, p] { return waits(p); },
                       [this, p](const std::string &why) {
                         late[p] = why;
                         io.stop();
                       },
                       [this, p] {
                         messages::Does does = at(p).does;
                         does.whom = at(p).whom;
                         return does;
                       },
                       [this, p](int32_t to, const Encoded &message) { return send(p, to, message); }, title});
  }
  static std::string title(int32_t p) { return p < 0 ? "the controller" : "rank " + std::to_string(p); }
  Process &at(int32_t p) { return all[size_t(p + 1)]; }

  /// Process 0 watches until something is late. False: nothing was while it asked so often.
  bool watch(int asks = INT_MAX) {
    at(0).watch->start();
    while (late.empty() && questions < asks)
      io.run_one();
    return !late.empty();
  }

  /// Process 0 looks once.
  void start() {
    at(0).watch->start();
    io.poll();
  }

  std::map<int32_t, std::string> late;
  int questions = 0; // of process 0

private:
  std::vector<Wait> waits(int32_t p) {
    if (at(p).whom.empty())
      return {};
    return {{[this, p] { return title(p) + ": recv: " + title(at(p).whom[0]) + " did not come to it"; }, at(p).whom,
             Clock::monotonic() - kHour, at(p).patient}};
  }
  bool send(int32_t from, int32_t to, const Encoded &message) {
    questions += from == 0 && messages::kKinds[message->header.kind].name == "asks";
    asio::post(io, [this, from, to, message] {
      if (at(to).still)
        return;
      ++at(to).asked;
      auto hears = [&](auto &&each) { at(to).watch->hear(from, each); };
      EXPECT_EQ(messages::dispatch<messages::ToPeer>(message->header.kind, message->bytes, hears), "");
    });
    return true;
  }

  asio::io_context io;
  std::vector<Process> all;
};

messages::Does does(const std::string &what, int64_t lasts, int64_t limit) {
  messages::Does does;
  does.what = what;
  does.lasts = lasts;
  does.limit = limit;
  return does;
}

const std::string kLate = "rank 0: recv: rank 1 did not come to it within 0.02 s";

TEST(Watch, TheEndOfTheChainIsNamed) {
  Net net(4);
  net.at(0).whom = {1};
  net.at(1).whom = {2};
  net.at(2).whom = {3};
  net.at(3).does = does("computes F stage 3 microbatch 0", 8 * kSecond, 5 * kSecond);
  ASSERT_TRUE(net.watch());
  EXPECT_EQ(net.late.at(0), kLate + ": rank 3 computes F stage 3 microbatch 0 (8 s so far)");
  EXPECT_EQ(net.at(3).asked, 1);
}

TEST(Watch, WhoMayTakeLongerIsWaitedFor) {
  Net net(3);
  net.at(0).whom = {1};
  net.at(1).whom = {2};
  net.at(2).does = does("saves its state", 8 * kSecond, 600 * kSecond);
  EXPECT_FALSE(net.watch(4));
  net.at(2).does.lasts = 600 * kSecond;
  ASSERT_TRUE(net.watch());
  EXPECT_EQ(net.late.at(0), kLate + ": rank 2 saves its state (600 s so far)");
}

TEST(Watch, WithoutALimitItMayTakeForEver) {
  Net net(2);
  net.at(0).whom = {1};
  net.at(1).does = does("saves its state", kHour, 0);
  EXPECT_FALSE(net.watch(4));
}

TEST(Watch, WhoStandsStillIsNamed) {
  Net net(4);
  net.at(0).whom = {1};
  net.at(1).whom = {2};
  net.at(2).whom = {kController};
  net.at(kController).still = true;
  ASSERT_TRUE(net.watch());
  EXPECT_EQ(net.late.at(0), kLate + ": the controller does not answer: its process stands still, or its machine does");
}

TEST(Watch, OfSeveralThatOneIsNamedWhichLastsTooLong) {
  Net net(4);
  net.at(0).whom = {1, 2};
  net.at(1).does = does("saves its state", 8 * kSecond, 600 * kSecond);
  net.at(2).whom = {1, 3};
  net.at(3).does = does("computes", 6 * kSecond, 5 * kSecond);
  ASSERT_TRUE(net.watch());
  EXPECT_EQ(net.late.at(0), kLate + ": rank 3 computes (6 s so far)");
  EXPECT_EQ(net.at(1).asked, 2); // and answers once
}

TEST(Watch, ThoseThatAllWaitForEachOtherEnd) {
  Net net(3);
  net.at(0).whom = {1};
  net.at(1).whom = {2};
  net.at(2).whom = {0};
  ASSERT_TRUE(net.watch());
  EXPECT_EQ(net.late.at(0), kLate);
}

TEST(Watch, WhoIsPatientWaitsAsLongAsTheOtherRuns) {
  Net net(2);
  net.at(0).whom = {kController};
  net.at(0).patient = true;
  EXPECT_FALSE(net.watch(4));
  net.at(kController).still = true;
  ASSERT_TRUE(net.watch());
  EXPECT_EQ(net.late.at(0), "rank 0: recv: the controller did not come to it within 0.02 s: the controller does not "
                            "answer: its process stands still, or its machine does");
}

TEST(Watch, AWaitForItselfEndsAfterWhatItDoes) {
  Net net(1);
  net.at(0).whom = {0};
  net.at(0).does = does("computes", 6 * kSecond, 5 * kSecond);
  ASSERT_TRUE(net.watch());
  EXPECT_NE(net.late.at(0).find("within 0.02 s: rank 0 computes (6 s so far)"), std::string::npos);
}

TEST(Watch, WithoutADeadlineNothingIsLate) {
  Net net(2, 0);
  net.at(0).whom = {1};
  net.at(1).still = true;
  net.start();
  EXPECT_EQ(net.questions, 0);
}

TEST(OwnTime, AStopCountsForNobody) {
  OwnTime own;
  own.tick(10 * kSecond, 10 * kSecond);
  own.tick(30 * kSecond + 1, 11 * kSecond); // it stood still for 19 s
  own.tick(31 * kSecond, 31 * kSecond - 1000);
  EXPECT_EQ(own.between(9 * kSecond, 31 * kSecond), 3 * kSecond - 1);
  EXPECT_EQ(own.between(20 * kSecond, 31 * kSecond), kSecond - 1);
  EXPECT_EQ(own.between(30 * kSecond + 1, 31 * kSecond), kSecond - 1);
}

TEST(Doing, TheInnermostCounts) {
  Doing doing;
  EXPECT_FALSE(doing.look());
  {
    const Doing::While saves = doing.does("saves its state", 7);
    {
      const Doing::While awaits = doing.awaits("layers");
      EXPECT_EQ(doing.look()->text, "layers");
      EXPECT_TRUE(doing.look()->waits);
    }
    EXPECT_EQ(doing.look()->text, "saves its state");
    EXPECT_EQ(doing.look()->limit, 7);
  }
  EXPECT_FALSE(doing.look());
}

} // namespace
