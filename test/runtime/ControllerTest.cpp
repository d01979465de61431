// The controller with processes that are played: each is the other end of a channel, and says what the test wants.
#include "runtime/launch/Controller.h"
#include "test/plan/MakePlan.h"
#include "test/runtime/TempFolder.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

using namespace pipec;
using namespace pipec::runtime;

namespace {

constexpr plan::Time kLong = 600'000'000'000'000, kShort = 1'000'000'000'000; // 10 minutes, 1 s

class Played {
public:
  Played(int32_t ranks, plan::Time deadline, int64_t steps = 100, const std::string &checkpoint = "",
         plan::Time rendezvous = 0, std::optional<Adaptation::Mode> adapt = std::nullopt)
      : said(size_t(ranks)) {
    plan::test::Make make;
    make.ranks = ranks;
    make.slots = adapt ? 1 : 2;
    auto plan = std::make_shared<plan::Plan>(plan::test::makePlan(make));
    plan->variants.front().certificate.span = 5'000'000'000; // 5 ms: a permit covers four steps
    plan->variants.push_back(plan->variants.front());
    plan->variants.back().name = "second";
    if (adapt) { // the second has larger rings; a permit covers one step
      make.slots = 2;
      plan->variants.back() = plan::test::makePlan(make).variants.front();
      plan->variants.back().name = "second";
      for (plan::Variant &each : plan->variants)
        each.certificate.span = 100'000'000'000;
    }
    Controller::Setup setup;
    setup.plan = plan;
    setup.options.steps = steps;
    setup.options.deadline = deadline;
    setup.options.rendezvous = rendezvous;
    setup.options.checkpoint = checkpoint;
    setup.adapt = adapt;
    Controller::Owner owner;
    owner.started = [this] { started = true; };
    owner.end = [this](int32_t rank) { ends[size_t(rank)]->close(); };
    owner.title = [](int32_t rank) { return "rank " + std::to_string(rank); };
    controller.emplace(io, setup, owner);
    for (int32_t rank = 0; rank < ranks; ++rank) {
      int pair[2];
      EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
      controller->join(rank, std::make_shared<Channel>(io, pair[0]),
                       [this, rank](const std::string &why) { controller->gone(rank, why); });
      ends.push_back(std::make_shared<Channel>(io, pair[1]));
      ends.back()->start([this, rank](Message m) { said[size_t(rank)].push_back(std::move(m)); },
                         [](const std::string &) {});
    }
  }

  void say(size_t rank, const Message &message) { ends[rank]->send(message); }
  void allSay(const Message &message) {
    for (auto &end : ends)
      end->send(message);
  }

  /// Runs until it holds; false: it did not within minutes.
  bool until(const std::function<bool()> &holds) {
    auto end = std::chrono::steady_clock::now() + std::chrono::minutes(5);
    while (!holds() && std::chrono::steady_clock::now() < end)
      io.run_one_until(end);
    return holds();
  }

  /// The last message of a type that a process heard; null: none.
  Message last(size_t rank, const std::string &type) {
    for (auto m = said[rank].rbegin(); m != said[rank].rend(); ++m)
      if (m->at("type") == type)
        return *m;
    return nullptr;
  }
  bool hears(size_t rank, const std::string &type) {
    return until([&] { return !last(rank, type).is_null(); });
  }

  void meet() {
    allSay({{"type", "listening"}, {"address", "127.0.0.1"}, {"port", 1}});
    ASSERT_TRUE(hears(0, "table"));
    allSay({{"type", "ready"}});
    ASSERT_TRUE(until([&] { return started && !last(said.size() - 1, "permit").is_null(); }));
  }

  Message prepared(int64_t program, Code code = Code::Ok, const std::string &message = "") {
    return {{"type", "prepared"}, {"program", program}, {"code", int(code)}, {"message", message}};
  }

  struct Answer {
    bool came = false;
    Status status;
    std::optional<Epoch> epoch;
  };
  void swap(const std::string &variant, Answer &answer) {
    controller->swaps().swap(variant, [&answer](Status status, std::optional<Epoch> epoch) {
      answer = {true, std::move(status), epoch};
    });
  }

  asio::io_context io;
  std::optional<Controller> controller;
  std::vector<std::shared_ptr<Channel>> ends;
  std::vector<std::vector<Message>> said;
  bool started = false;
};

/// A run of two ranks that adapts.
class Adapting : public Played {
public:
  explicit Adapting(Adaptation::Mode mode) : Played(2, kLong, 100, "", 0, mode) {}

  /// Rank 0 needs a step. All answer what they are asked, unless it is `silent`: transfers took so long. True: then
  /// both have the permit.
  bool need(int64_t step, plan::Time each, int32_t silent = -1) {
    const auto rounds = [&](size_t rank) { return std::max<int64_t>(last(rank, "measure").value("round", 0), 0); };
    const int64_t round = last(1, "measure").is_null() ? 1 : rounds(1) + 1;
    say(0, {{"type", "progress"}, {"step", step - 1}, {"needs", step}});
    for (int32_t rank = 0; rank < 2; ++rank) {
      if (!until([&] { return !last(size_t(rank), "measure").is_null() && rounds(size_t(rank)) == round; }))
        return false;
      adapt::Sample sample{-1'000'000'000'000'000, {}, 1 - rank, rank}; // at any time: the run's clock says little here
      for (int i = 0; i < 8; ++i)
        sample.tally.add(each, 0, plan::Bytes(16) << 20);
      if (rank != silent)
        say(size_t(rank), {{"type", "measured"},
                           {"round", round},
                           {"samples", packSamples({sample})},
                           {"steps", std::vector<int64_t>()}});
    }
    return until(
        [&] { return last(0, "permit").at("until") == step + 1 && last(1, "permit").at("until") == step + 1; });
  }
  /// As steps are needed one after the other.
  bool needAll(int64_t first, int64_t end, plan::Time each) {
    bool all = true;
    for (int64_t step = first; all && step < end; ++step)
      all = need(step, each);
    return all;
  }
};

constexpr plan::Time kSlow = 100'000'000'000, kQuick = 1'000'000'000; // a transfer: 100 ms, 1 ms

// However late a decision is, permits are given; those that were in time are seen sooner or later.
TEST(Adaptation, ChoosesWhatIsShorterOnTheNetworkThatWasMeasured) {
  Adapting p(Adaptation::Mode::On);
  p.meet();
  for (int64_t step = 1; p.controller->status().at("adapt").at("switches") == 0 && step < 90; ++step)
    ASSERT_TRUE(p.need(step, kSlow));
  const Message adapt = p.controller->status().at("adapt");
  EXPECT_EQ(adapt.at("mode"), "on");
  EXPECT_EQ(adapt.at("switches"), 1);
  EXPECT_EQ(adapt.at("candidates").at(1), "variant 1 (second)");
  EXPECT_EQ(adapt.at("estimates").at("links").size(), 2u);
  EXPECT_EQ(p.controller->status().at("running"), "variant 1 (second)");
  EXPECT_EQ(p.last(1, "decision").at("to"), "variant 1 (second)");
}

TEST(Adaptation, ObservingSwapsNothing) {
  Adapting p(Adaptation::Mode::Observe);
  p.meet();
  for (int64_t step = 1; p.last(1, "decision").is_null() && step < 90; ++step)
    ASSERT_TRUE(p.need(step, kSlow));
  EXPECT_FALSE(p.last(1, "decision").is_null());
  EXPECT_EQ(p.controller->status().at("adapt").at("switches"), 0);
  EXPECT_EQ(p.controller->status().at("running"), "variant 0 (1f1b)");
}

TEST(Adaptation, AQuietNetworkIsNoReasonToSwap) {
  Adapting p(Adaptation::Mode::On);
  p.meet();
  ASSERT_TRUE(p.needAll(1, 20, kQuick));
  EXPECT_TRUE(p.last(1, "decision").is_null());
}

TEST(Adaptation, WhoDoesNotAnswerHoldsUpNoPermit) {
  Adapting p(Adaptation::Mode::On);
  p.meet();
  EXPECT_TRUE(p.need(1, kSlow, 1));
  EXPECT_TRUE(p.need(2, kSlow, 0));
  EXPECT_EQ(p.controller->status().at("adapt").at("switches"), 0);
}

TEST(Adaptation, ASwapThatIsAskedForGoesFirst) {
  Adapting p(Adaptation::Mode::On);
  p.meet();
  Played::Answer answer;
  p.swap("1", answer);
  ASSERT_TRUE(p.hears(1, "prepare"));
  ASSERT_TRUE(p.needAll(1, 5, kSlow)); // whatever is decided meanwhile
  EXPECT_EQ(p.controller->status().at("adapt").at("switches"), 0);
  p.say(0, p.prepared(1));
  p.say(1, p.prepared(1));
  ASSERT_TRUE(p.need(5, kSlow));
  ASSERT_TRUE(p.until([&] { return answer.came; }));
  EXPECT_TRUE(answer.status.ok());
}

TEST(Controller, FromTheMeetingToTheReports) {
  Played p(2, kLong, 8);
  p.meet();
  EXPECT_EQ(p.last(1, "table").at("endpoints").size(), 2u);
  EXPECT_EQ(p.last(1, "permit").at("until"), 4);
  p.say(1, {{"type", "progress"}, {"step", 2}, {"needs", 2}});
  ASSERT_TRUE(p.until([&] { return p.last(0, "permit").at("until") == 6; }));
  EXPECT_EQ(p.last(0, "permit").at("last"), false);
  p.say(0, {{"type", "progress"}, {"step", 8}, {"needs", 8}});
  ASSERT_TRUE(p.until([&] { return p.last(1, "permit").at("last") == true; }));
  Message report = toJson(RankReport{});
  report["type"] = "report";
  p.allSay(report);
  ASSERT_TRUE(p.hears(1, "finish"));
  EXPECT_TRUE(p.controller->outcome().ok());
  EXPECT_EQ(p.controller->result().end, 8);
  EXPECT_EQ(p.controller->result().ended, "done");
}

TEST(Controller, SwapsOnceAllHaveAgreed) {
  Played p(2, kLong);
  p.meet();
  Played::Answer answer;
  p.swap("second", answer);
  ASSERT_TRUE(p.hears(1, "prepare"));
  p.say(0, p.prepared(1));
  p.say(0, {{"type", "progress"}, {"step", 1}, {"needs", 1}});
  ASSERT_TRUE(p.until([&] { return p.last(0, "permit").at("until") == 5; }));
  EXPECT_EQ(p.last(0, "permit").at("epoch"), 0); // rank 1 has not agreed
  EXPECT_FALSE(answer.came);
  p.say(1, p.prepared(1));
  p.say(0, {{"type", "progress"}, {"step", 2}, {"needs", 2}});
  ASSERT_TRUE(p.until([&] { return answer.came; }));
  EXPECT_TRUE(answer.status.ok()) << answer.status.message;
  ASSERT_TRUE(answer.epoch);
  EXPECT_EQ(answer.epoch->epoch, 1);
  ASSERT_TRUE(p.until([&] { return p.last(1, "permit").at("epoch") == 1; }));
  EXPECT_EQ(p.last(1, "permit").at("program"), 1);
  EXPECT_EQ(p.controller->status().at("running"), "variant 1 (second)");
}

TEST(Controller, SwapToWhatRunsChangesNothing) {
  Played p(2, kLong);
  p.meet();
  Played::Answer answer;
  p.swap("0", answer);
  EXPECT_TRUE(answer.came && answer.status.ok());
  EXPECT_TRUE(p.last(0, "prepare").is_null());
}

TEST(Controller, ARankThatRejectsASwapIsNamedAndTheRunGoesOn) {
  Played p(3, kLong);
  p.meet();
  Played::Answer answer;
  p.swap("1", answer);
  ASSERT_TRUE(p.hears(2, "prepare"));
  p.say(0, p.prepared(1));
  p.say(1, p.prepared(1, Code::Check, "not with me"));
  p.say(2, p.prepared(1));
  ASSERT_TRUE(p.until([&] { return answer.came; }));
  EXPECT_EQ(answer.status.code, Code::Check);
  EXPECT_EQ(answer.status.message, "rank 1 refused: not with me");
  p.say(0, {{"type", "progress"}, {"step", 10}, {"needs", 10}});
  ASSERT_TRUE(p.until([&] { return p.last(2, "permit").at("until") == 14; }));
  EXPECT_EQ(p.last(2, "permit").at("epoch"), 0);
  EXPECT_FALSE(p.controller->failing());
}

TEST(Controller, ARankThatDoesNotAnswerMeansNoSwap) {
  Played p(2, kShort);
  p.meet();
  Played::Answer answer;
  p.swap("1", answer);
  p.say(0, p.prepared(1));
  ASSERT_TRUE(p.until([&] { return answer.came; }));
  EXPECT_EQ(answer.status.message, "rank 1 did not answer within 1 s: no swap");
  p.say(1, p.prepared(1)); // too late
  p.say(0, {{"type", "progress"}, {"step", 3}, {"needs", 3}});
  ASSERT_TRUE(p.until([&] { return p.last(1, "permit").at("until") == 7; }));
  EXPECT_EQ(p.last(1, "permit").at("epoch"), 0);
}

TEST(Controller, WhoDoesNotComeToTheMeetingIsNamed) {
  Played p(2, kLong, 100, "", kShort);
  p.say(0, {{"type", "listening"}, {"address", "127.0.0.1"}, {"port", 1}});
  ASSERT_TRUE(p.hears(0, "end"));
  EXPECT_NE(p.controller->outcome().message.find("rank 1 did not come to the meeting within 1 s"), std::string::npos);
}

TEST(Controller, AFailureIsToldToTheOthers) {
  Played p(2, kLong);
  p.meet();
  Played::Answer answer;
  p.swap("1", answer);
  p.say(1, {{"type", "failed"}, {"message", "rank 1: no more"}});
  ASSERT_TRUE(p.hears(0, "end"));
  EXPECT_EQ(p.last(0, "end").at("message"), "rank 1: no more");
  EXPECT_EQ(p.controller->outcome().code, Code::Run);
  ASSERT_TRUE(answer.came);
  EXPECT_EQ(answer.status.message, "the run has failed: rank 1: no more");
}

TEST(Controller, StopEndsAtWhatIsPermitted) {
  Played p(2, kLong);
  p.meet();
  bool told = false;
  p.controller->stop("SIGINT", [&](const Status &status) { told = status.ok(); });
  ASSERT_TRUE(p.until([&] { return p.last(1, "permit").at("last") == true; }));
  EXPECT_EQ(p.last(1, "permit").at("until"), 4);
  EXPECT_FALSE(told);
  Message report = toJson(RankReport{});
  report["type"] = "report";
  p.controller->stop("stop"); // what was asked for already
  p.allSay(report);
  ASSERT_TRUE(p.until([&] { return told; }));
  EXPECT_EQ(p.controller->result().ended, "SIGINT");
  EXPECT_EQ(p.controller->result().end, 4);
}

class ControllerOfCheckpoints : public test::TempFolder {};

// Rank 0 has saved twice before rank 1 has once.
TEST_F(ControllerOfCheckpoints, OfProcessesThatAreApart) {
  Played p(2, kLong, 100, folder);
  p.meet();
  auto save = [&](size_t rank, int64_t step) {
    p.say(rank, {{"type", "saved"}, {"step", step}, {"name", "x"}, {"bytes", 1}, {"hash", "0"}});
  };
  save(0, 10);
  save(0, 20);
  save(1, 10);
  EXPECT_TRUE(p.until([&] { return p.controller->result().checkpoint == 10; }));
  save(1, 20);
  EXPECT_TRUE(p.until([&] { return p.controller->result().checkpoint == 20; }));
}

TEST(Controller, AMessageThatMakesNoSenseEndsThatProcess) {
  Played p(2, kLong);
  p.meet();
  p.say(0, {{"type", "progress"}, {"step", "far"}});
  ASSERT_TRUE(p.until([&] { return p.controller->failing(); }));
  EXPECT_NE(p.controller->outcome().message.find("it sent a message that cannot be read"), std::string::npos);
}

} // namespace
