// What a run that adapts asks its processes, and what it makes of their answers.
#include "test/launch/Played.h"

using namespace pipec;
using namespace pipec::runtime;
using pipec::test::kLong;
using pipec::test::Played;

namespace {

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

} // namespace
