// The controller's part in a run, from the meeting to the reports, with played processes.
#include "runtime/stage/hosted/Handover.h"
#include "test/launch/Played.h"
#include "test/launch/TempFolder.h"

#include <fmt/format.h>

using namespace pipec;
using namespace pipec::runtime;
using pipec::test::kLong;
using pipec::test::kShort;
using pipec::test::Played;

namespace {

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
  const Message report = test::emptyReport();
  p.allSay(report);
  ASSERT_TRUE(p.hears(1, "finish"));
  EXPECT_TRUE(p.controller->outcome().ok());
  EXPECT_EQ(p.controller->result().end, 8);
  EXPECT_EQ(p.controller->result().ended, "done");
}

TEST(Controller, WhoHasNothingToDoEndsOnceAllOthersHave) {
  Played p(3, kLong, 4);
  p.meet();
  const Message report = test::emptyReport();
  p.say(2, {{"type", "waits"}});
  p.say(0, report);
  p.say(0, {{"type", "clock"}}); // whose answer comes behind all that the report may have led to
  ASSERT_TRUE(p.hears(0, "clock"));
  EXPECT_TRUE(p.last(2, "rest").is_null());
  p.say(1, report);
  ASSERT_TRUE(p.hears(2, "rest"));
  EXPECT_TRUE(p.last(1, "rest").is_null());
  EXPECT_TRUE(p.last(1, "finish").is_null());
  p.say(2, report);
  ASSERT_TRUE(p.hears(2, "finish"));
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

TEST(Controller, WhatSeveralRanksSayIsSaidOnce) {
  Played p(4, kLong);
  p.meet();
  const auto says = [&](int32_t rank, const std::string &said, const std::string &outcome) {
    p.say(rank, {{"type", "failed"}, {"message", fmt::format("rank {}: {}", rank, said)}});
    EXPECT_TRUE(p.until([&] { return p.controller->outcome().message == outcome; })) << p.controller->outcome().message;
  };
  says(2, "no such library", "rank 2: no such library");
  says(1, "no such library", "rank 2: no such library (so says rank 1)");
  says(3, "the controller ended the run: rank 2: no such library", "rank 2: no such library (so says rank 1)");
  says(0, "no memory", "rank 2: no such library (so says rank 1)\nrank 0: no memory");
}

TEST(Controller, StopEndsAtWhatIsPermitted) {
  Played p(2, kLong);
  p.meet();
  bool told = false;
  p.controller->stop("SIGINT", [&](const Status &status) { told = status.ok(); });
  ASSERT_TRUE(p.until([&] { return p.last(1, "permit").at("last") == true; }));
  EXPECT_EQ(p.last(1, "permit").at("until"), 4);
  EXPECT_FALSE(told);
  const Message report = test::emptyReport();
  p.controller->stop("stop"); // what was asked for already
  p.allSay(report);
  ASSERT_TRUE(p.until([&] { return told; }));
  EXPECT_EQ(p.controller->result().ended, "SIGINT");
  EXPECT_EQ(p.controller->result().end, 4);
}

class ControllerOfCheckpoints : public test::TempFolder {
protected:
  static void save(Played &p, size_t rank, int64_t step) {
    const std::vector<std::pair<int32_t, StateFile>> states{{int32_t(rank), {"x", 1, "0"}}};
    p.say(rank, {{"type", "saved"}, {"step", step}, {"states", states}, {"layers", false}, {"recuts", false}});
  }
};

// Rank 0 has saved twice before rank 1 has once.
TEST_F(ControllerOfCheckpoints, OfProcessesThatAreApart) {
  Played p(2, kLong, 100, folder);
  p.meet();
  save(p, 0, 10);
  save(p, 0, 20);
  save(p, 1, 10);
  EXPECT_TRUE(p.until([&] { return p.controller->result().checkpoint == 10; }));
  save(p, 1, 20);
  EXPECT_TRUE(p.until([&] { return p.controller->result().checkpoint == 20; }));
}

/// Of programs that run their ranks themselves.
class ControllerOfHosts : public ControllerOfCheckpoints {
protected:
  std::function<void(RunOptions &)> hosts(plan::Time idle, int64_t every = 0) {
    return [this, idle, every](RunOptions &options) {
      options.hosting.handover = &handover;
      options.idle = idle;
      options.every = every;
    };
  }
  /// Both do, and hear what that led to.
  static void begin(Played &p, int64_t step) {
    p.allSay({{"type", "progress"}, {"step", step}, {"needs", step}});
    p.allSay({{"type", "put"}, {"key", "here"}, {"text", std::to_string(step)}});
    for (size_t rank : {0, 1})
      ASSERT_TRUE(p.until([&] {
        return std::ranges::count(p.said[rank],
                                  Message{{"type", "text"}, {"key", "here"}, {"text", std::to_string(step)}}) == 2;
      }));
  }

  Handover handover;
};

/// Rank 1 is asked, and says what it does.
void answer(Played &p, const std::string &what, int64_t lasts, int64_t limit) {
  ASSERT_TRUE(p.hears(1, "asks"));
  const Message asks = p.last(1, "asks");
  EXPECT_EQ(asks.at("of"), 1);
  p.said[1].clear();
  p.say(1, {{"type", "does"},
            {"origin", asks.at("origin")},
            {"number", asks.at("number")},
            {"process", 1},
            {"what", what},
            {"lasts", lasts},
            {"limit", limit},
            {"whom", Message::array()}});
}

TEST(Controller, WhoHasComeMayLoad) {
  constexpr int64_t kSecond = 1'000'000'000;
  Played p(2, kShort);
  p.allSay({{"type", "listening"}, {"address", "127.0.0.1"}, {"port", 1}});
  p.say(0, {{"type", "ready"}});
  answer(p, "loads its state", 100 * kSecond, 600 * kSecond);
  answer(p, "loads its state", 599 * kSecond, 600 * kSecond);
  EXPECT_FALSE(p.controller->failing());
  answer(p, "loads its state", 601 * kSecond, 600 * kSecond);
  ASSERT_TRUE(p.hears(0, "end"));
  EXPECT_EQ(p.controller->outcome().message,
            "rank 1 did not come to the start within 1 s: rank 1 loads its state (601 s so far)");
}

/// Questions of others go where they should, and answers back.
TEST(Controller, PassesOnWhatProcessesAskEachOther) {
  Played p(3, kLong);
  p.meet();
  p.say(0, {{"type", "asks"}, {"origin", 0}, {"number", 1}, {"of", 2}});
  ASSERT_TRUE(p.hears(2, "asks"));
  p.say(2, {{"type", "does"},
            {"origin", 0},
            {"number", 1},
            {"process", 2},
            {"what", "saves its state"},
            {"lasts", 8},
            {"limit", 0},
            {"whom", {1}}});
  ASSERT_TRUE(p.hears(0, "does"));
  EXPECT_EQ(p.last(0, "does").at("what"), "saves its state");
  p.say(0, {{"type", "asks"}, {"origin", 0}, {"number", 2}, {"of", -1}});
  ASSERT_TRUE(p.until([&] { return p.last(0, "does").at("process") == -1; }));
  EXPECT_EQ(p.last(0, "does").at("what"), "");
  EXPECT_TRUE(p.last(1, "asks").is_null());
  for (const int32_t nobody : {-2, 3, INT32_MAX}) // not heard of
    p.say(0, {{"type", "asks"}, {"origin", nobody}, {"number", 1}, {"of", nobody}});
  p.say(0, {{"type", "asks"}, {"origin", 0}, {"number", 3}, {"of", 1}});
  ASSERT_TRUE(p.hears(1, "asks"));
  EXPECT_FALSE(p.controller->failing());
}

TEST_F(ControllerOfHosts, WhoComesLaterHearsWhatWasSaidBefore) {
  Played p(3, kLong, 100, "", 0, std::nullopt, hosts(kLong), 2);
  p.say(0, {{"type", "put"}, {"key", "seed"}, {"text", "7"}});
  ASSERT_TRUE(p.hears(0, "text"));
  p.join();
  ASSERT_TRUE(p.hears(1, "text"));
  p.join();
  ASSERT_TRUE(p.hears(2, "text"));
  EXPECT_EQ(p.last(2, "text").at("text"), "7");
}

TEST(Controller, WhatAProcessCannotMeanEndsItsConnection) {
  const Message progress{{"type", "progress"}, {"step", 1}};
  const Message report = test::emptyReport();
  const auto with = [](Message message, const char *field, const Message &value) {
    message[field] = value;
    return message;
  };
  const Message saved{
      {"type", "saved"}, {"step", 4}, {"states", Message::array()}, {"layers", false}, {"recuts", false}};
  const std::pair<Message, std::string> lies[] = {
      {with(progress, "step", "far"), "a message that has another type or range of \"step\": progress"},
      {with(progress, "step", 1.5), "a message that has another type or range of \"step\": progress"},
      {with(progress, "step", UINT64_MAX), "a message that has another type or range of \"step\": progress"},
      {with(progress, "more", 1), "a message that has fields that it should not have: progress"},
      {Message{{"type", "progress"}}, "a message that lacks \"step\": progress"},
      {with(progress, "step", INT64_MAX), "progress to a step that the run does not have"},
      {with(progress, "needs", -1), "progress to a step that the run does not have"},
      {{{"type", "permit"}}, "a message that it may not send here: permit"},
      {{{"type", "nonsense"}}, "a message of unknown kind " + std::to_string(messages::kKinds.size())},
      {{{"type", "listening"}, {"address", "127.0.0.1"}, {"port", 1}},
       "an address to listen at that is none, or a second one"},
      {{{"type", "listening"}, {"address", "127.0.0.1"}, {"port", 65536}},
       "a message that has another type or range of \"port\": listening"},
      {{{"type", "ready"}}, "ready before it listens, or twice"},
      {{{"type", "clock"}, {"now", 7}}, "a time where it may only ask for one"},
      {{{"type", "put"}, {"key", "a"}, {"text", "b"}}, "a text, which only a host says"},
      {{{"type", "swap"}, {"variant", "second"}}, "a swap, which only a host asks for"},
      {{{"type", "finishes"}, {"step", 4}}, "an end, which only a host says, in a step of the run"},
      {{{"type", "prepared"}, {"program", 1}, {"code", 9}, {"message", ""}}, "an answer with a code that is none"},
      {{{"type", "paced"}, {"solo", -1}, {"filled", 1}}, "a time below zero"},
      {saved, "a state that nobody has asked for"},
      {with(report, "steps", {1}), "a report that cannot be"},
      {with(report, "events", {1, 2, 3}), "a report that cannot be"},
      {with(report, "job", {1, 2, 3, 4}), "a message that has another type or range of \"job\": report"},
      {with(report, "job_ended", 0), "a message that has another type or range of \"job_ended\": report"}};
  for (const auto &[lie, says] : lies) {
    Played p(2, kLong);
    p.meet();
    p.say(1, lie);
    ASSERT_TRUE(p.until([&] { return p.controller->failing(); })) << says;
    EXPECT_EQ(p.controller->outcome().message, "it sent " + says);
    ASSERT_TRUE(p.hears(1, "end")) << says;
    EXPECT_EQ(p.last(1, "end").at("message"), "what it was sent ends the connection: " + says);
  }
}

TEST_F(ControllerOfCheckpoints, AStateThatIsNotItsOwnIsRefused) {
  const auto saved = [](size_t rank, int64_t step, const char *name, bool layers = false) {
    const std::vector<std::pair<int32_t, StateFile>> states{{int32_t(rank), {name, 1, "0"}}};
    return Message{
        {"type", "saved"}, {"step", step}, {"states", messages::write(states)}, {"layers", layers}, {"recuts", false}};
  };
  for (const auto &[lie, says] : {std::pair(saved(0, 10, "x"), "a state that is not its own"),
                                  {saved(8, 10, "x", true), "a state that is not its own"},
                                  {saved(1, 10, "../x"), "a state that is not its own"},
                                  {saved(1, 101, "x"), "a state that nobody has asked for"}}) {
    Played p(2, kLong, 100, folder);
    p.meet();
    p.say(1, lie);
    ASSERT_TRUE(p.until([&] { return p.controller->failing(); }));
    EXPECT_EQ(p.controller->outcome().message, std::string("it sent ") + says);
  }
}

} // namespace
