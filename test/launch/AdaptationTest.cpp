// What a run that adapts asks its processes, and what it makes of their answers.
#include "runtime/plan/Write.h"
#include "runtime/simulate/Simulate.h"
#include "test/launch/Played.h"
#include "test/launch/TempFolder.h"

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <sstream>

using namespace pipec;
using namespace pipec::runtime;
using pipec::test::kLong;
using pipec::test::Played;

namespace {

/// A run of two ranks that adapts.
class Adapting : public Played {
public:
  explicit Adapting(Adaptation::Mode mode) : Played(2, kLong, kSteps, "", 0, mode) {}
  static constexpr int64_t kSteps = 1'000'000;

  /// Rank 0 needs a step. All answer what they are asked, if they are, unless one is `silent`: transfers took so long.
  /// True: then both have the permit.
  bool need(int64_t step, plan::Time each, int32_t silent = -1) {
    say(0, {{"type", "progress"}, {"step", step - 1}, {"needs", step}});
    return until([&] {
      for (int32_t rank = 0; rank < 2; ++rank)
        if (const Message asked = last(size_t(rank), "measure");
            !asked.is_null() && asked.at("round") != answered[rank])
          answer(rank, answered[rank] = asked.at("round"), each, rank == silent);
      const auto permitted = [&](size_t rank) { return last(rank, "permit").at("until").get<int64_t>(); };
      return permitted(0) == step + 1 && permitted(1) == step + 1;
    });
  }
  /// All ranks say that they need the step again when they answer, as they do that are a little behind.
  bool asksAgain = false;

  /// Steps are needed one after the other until something holds.
  bool needUntil(plan::Time each, const std::function<bool()> &holds) {
    while (!holds() && step < kSteps)
      if (!need(++step, each))
        return false;
    return holds();
  }
  Message adapt() { return controller->status().at("adapt"); }
  int64_t decisions() {
    const Message last = adapt().at("decision");
    return last.is_null() ? 0 : last.at("step").get<int64_t>();
  }

  int64_t step = 0;

private:
  void answer(int32_t rank, int64_t round, plan::Time each, bool silent) {
    adapt::Sample sample{-1'000'000'000'000'000, {}, 1 - rank, rank}; // at any time: the run's clock says little here
    for (int i = 0; i < 8; ++i)
      sample.tally.add(each, 0, plan::Bytes(16) << 20);
    if (!silent)
      say(size_t(rank), {{"type", "measured"},
                         {"round", round},
                         {"samples", packSamples({sample})},
                         {"steps", std::vector<int64_t>()}});
    if (asksAgain)
      say(size_t(rank), {{"type", "progress"}, {"step", step - 1}, {"needs", step}});
  }
  std::array<int64_t, 2> answered{};
};

constexpr plan::Time kSlow = 100'000'000'000, kQuick = 1'000'000'000; // a transfer: 100 ms, 1 ms

// However late decisions are, permits are given, and those that are in time are seen sooner or later.
TEST(Adaptation, ChoosesWhatIsShorterOnTheNetworkThatWasMeasured) {
  Adapting p(Adaptation::Mode::On);
  p.meet();
  ASSERT_TRUE(p.needUntil(kSlow, [&] { return p.adapt().at("switches") == 1; }));
  EXPECT_EQ(p.adapt().at("mode"), "on");
  EXPECT_EQ(p.adapt().at("candidates").at(1), "variant 1 (second)");
  EXPECT_EQ(p.adapt().at("estimates").at("links").size(), 2u);
  EXPECT_EQ(p.controller->status().at("running"), "variant 1 (second)");
  EXPECT_EQ(p.last(1, "decision").at("to"), "variant 1 (second)");
}

// Ranks come to a step one after the other: those that ask while it is being decided wait for that too.
TEST(Adaptation, WhoAsksMeanwhileGetsNoPermitBeforeTheDecision) {
  Adapting p(Adaptation::Mode::On);
  p.asksAgain = true;
  p.meet();
  for (const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(5);
       p.adapt().at("switches") == 0 && std::chrono::steady_clock::now() < end;)
    ASSERT_TRUE(p.need(++p.step, kSlow));
  EXPECT_EQ(p.adapt().at("switches"), 1);
  EXPECT_LT(p.step, 1000);
}

TEST(Adaptation, ObservingSwapsNothing) {
  Adapting p(Adaptation::Mode::Observe);
  p.meet();
  ASSERT_TRUE(p.needUntil(kSlow, [&] { return !p.last(1, "decision").is_null(); }));
  EXPECT_EQ(p.adapt().at("switches"), 0);
  EXPECT_EQ(p.controller->status().at("running"), "variant 0 (1f1b)");
}

TEST(Adaptation, AQuietNetworkIsNoReasonToSwap) {
  Adapting p(Adaptation::Mode::On);
  p.meet();
  ASSERT_TRUE(p.needUntil(kQuick, [&] { return p.decisions() > 3; }));
  EXPECT_TRUE(p.last(1, "decision").is_null());
}

TEST(Adaptation, WhoDoesNotAnswerHoldsUpNoPermit) {
  Adapting p(Adaptation::Mode::On);
  p.meet();
  EXPECT_TRUE(p.need(1, kSlow, 1));
  EXPECT_TRUE(p.need(2, kSlow, 0));
  EXPECT_EQ(p.adapt().at("switches"), 0);
}

/// What is said meanwhile.
class Heard {
public:
  Heard() : before(spdlog::default_logger()) {
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(stream)));
  }
  ~Heard() { spdlog::set_default_logger(before); }
  std::string text() const { return stream.str(); }

private:
  std::ostringstream stream;
  std::shared_ptr<spdlog::logger> before;
};

TEST(Adaptation, WhatCannotBeIsLeftOutAndSaidOnce) {
  const Heard heard;
  Adapting p(Adaptation::Mode::On);
  p.meet();
  ASSERT_TRUE(p.needUntil(-kSlow, [&] { return p.decisions() > 1; }));
  EXPECT_TRUE(p.adapt().at("estimates").at("links").empty());
  EXPECT_FALSE(p.controller->failing());
  const std::string text = heard.text();
  const size_t at = text.find(" says it has measured what cannot be, from rank ");
  ASSERT_NE(at, std::string::npos) << text;
  EXPECT_NE(text.find(": such measurements are left out"), std::string::npos) << text;
  EXPECT_EQ(text.find("cannot be", at + 40), std::string::npos) << text;
}

class AdaptationOfFiles : public test::TempFolder {};

TEST_F(AdaptationOfFiles, APlanThatIsNoneIsRefusedAndTheRunGoesOn) {
  Adapting p(Adaptation::Mode::On);
  p.meet();
  const std::string path = folder + "/corrupt.pipe";
  std::vector<uint8_t> bytes = plan::encode(*p.controller->plan());
  const auto offered = [&](const std::vector<uint8_t> &content) {
    EXPECT_TRUE(plan::writeFile(path, content).ok());
    Played::Answer answer;
    p.controller->swaps().offer(path, "new", [&answer](Status status, std::optional<Epoch> epoch) {
      answer = {true, std::move(status), epoch};
    });
    EXPECT_TRUE(p.until([&] { return answer.came; }));
    return answer.status;
  };
  for (const size_t byte : {size_t(0), bytes.size() / 2, bytes.size() - 1}) {
    std::vector<uint8_t> corrupt = bytes;
    corrupt[byte] ^= 0x55;
    EXPECT_FALSE(offered(corrupt).ok()) << byte;
  }
  EXPECT_EQ(offered({bytes.begin(), bytes.begin() + 100}).code, Code::Input);
  EXPECT_EQ(offered({}).code, Code::Input);
  EXPECT_TRUE(p.last(0, "prepare").is_null()); // no process was asked
  EXPECT_EQ(p.adapt().at("candidates").size(), 2u);
  EXPECT_TRUE(p.need(1, kQuick));
  EXPECT_FALSE(p.controller->failing());
}

/// All variants of a plan that is offered may be chosen; of more than 16 those of the plan that came first go, and the
/// processes are told to drop them.
TEST_F(AdaptationOfFiles, AllVariantsOfAnOfferedPlanMayBeChosenUntilOthersComeInTheirPlace) {
  Adapting p(Adaptation::Mode::On);
  p.meet();
  plan::Plan more = *p.controller->plan();
  const std::vector<plan::Variant> own = more.variants;
  more.variants.insert(more.variants.end(), own.begin(), own.end());
  for (size_t v = 0; v != more.variants.size(); ++v) {
    simulate::Result walk;
    ASSERT_TRUE(simulate::simulate(more.variants[v], {}, walk).ok());
    more.variants[v].certificate.makespan = walk.makespan;
    more.variants[v].certificate.span =
        std::max(walk.makespan, more.variants[v].certificate.spanLowerBound.picoseconds());
  }
  const std::string path = folder + "/more.pipe";
  ASSERT_TRUE(plan::writeFile(path, plan::encode(more)).ok());
  std::vector<int64_t> programs;
  const auto offer = [&](const std::string &name) {
    Played::Answer answer;
    p.controller->swaps().offer(path, name, [&answer](Status status, std::optional<Epoch> epoch) {
      answer = {true, std::move(status), epoch};
    });
    const auto asked = [&] {
      const Message last = p.last(1, "prepare");
      return !last.is_null() && (programs.empty() || last.at("program") != programs.back());
    };
    EXPECT_TRUE(p.until([&] { return answer.came || asked(); }));
    ASSERT_FALSE(answer.came) << answer.status.message; // the plan is right
    programs.push_back(p.last(1, "prepare").at("program"));
    p.allSay(p.prepared(programs.back()));
    EXPECT_TRUE(p.until([&] { return answer.came; }));
    EXPECT_TRUE(answer.status.ok()) << answer.status.message;
  };
  const auto names = [&] {
    std::vector<std::string> all;
    for (const auto &[name, plan] : p.controller->adaptation()->plans())
      all.push_back(name);
    return all;
  };
  offer("first");
  ASSERT_EQ(p.adapt().at("candidates").size(), 6u);
  EXPECT_EQ(p.adapt().at("candidates").at(5), "first, variant 3");
  offer("second");
  offer("third");
  EXPECT_EQ(names().size(), 4u); // and the run's own
  EXPECT_TRUE(p.last(0, "drop").is_null());
  offer("fourth");
  EXPECT_EQ(names().size(), 4u);
  ASSERT_TRUE(p.hears(1, "drop"));
  EXPECT_EQ(p.last(1, "drop").at("program"), programs.front());
  EXPECT_EQ(p.last(1, "drop").at("count"), 4);
  EXPECT_EQ(p.adapt().at("replans"), 4);
  ASSERT_TRUE(p.needUntil(kSlow, [&] { return p.adapt().at("switches").get<int64_t>() >= 1; })); // it goes on choosing
  EXPECT_FALSE(p.controller->failing());
}

TEST(Adaptation, ASwapThatIsAskedForGoesFirst) {
  Adapting p(Adaptation::Mode::On);
  p.meet();
  Played::Answer answer;
  p.swap("1", answer);
  ASSERT_TRUE(p.hears(1, "prepare"));
  ASSERT_TRUE(p.needUntil(kSlow, [&] { return p.decisions() > 2; })); // whatever is decided meanwhile
  EXPECT_EQ(p.adapt().at("switches"), 0);
  p.say(0, p.prepared(1));
  p.say(1, p.prepared(1));
  ASSERT_TRUE(p.need(p.step + 1, kSlow));
  ASSERT_TRUE(p.until([&] { return answer.came; }));
  EXPECT_TRUE(answer.status.ok());
}

} // namespace
