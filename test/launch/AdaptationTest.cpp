// What a run that adapts asks its processes, and what it makes of their answers.
#include "runtime/plan/Write.h"
#include "test/launch/Played.h"
#include "test/launch/TempFolder.h"

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

TEST(Adaptation, WhatCannotBeIsLeftOut) {
  Adapting p(Adaptation::Mode::On);
  p.meet();
  ASSERT_TRUE(p.needUntil(-kSlow, [&] { return p.decisions() > 1; }));
  EXPECT_TRUE(p.adapt().at("estimates").at("links").empty());
  EXPECT_FALSE(p.controller->failing());
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
