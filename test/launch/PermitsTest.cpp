// What a process may run, as its interpreter asks for it.
#include "runtime/launch/Permits.h"

#include <gtest/gtest.h>
#include <thread>

using namespace pipec;
using namespace pipec::runtime;

namespace {

struct Fixture {
  explicit Fixture(int64_t first = 0, int64_t every = 0)
      : permits(first, every, doing, failure,
                {[this](int64_t step) { return asked.push_back(step), wanted; }, [](int64_t) {},
                 [](int64_t) { return true; },
                 [this](int64_t step, const auto &plan) {
                   recut.emplace_back(step, plan);
                   return true;
                 }}) {}
  Failure failure;
  Doing doing;
  bool wanted = true; // by who runs the steps
  std::vector<int64_t> asked;
  std::vector<std::pair<int64_t, std::shared_ptr<const plan::Plan>>> recut;
  Permits permits;
};

TEST(Permits, StepsRunUnderThePermitThatCoversThem) {
  Fixture f;
  f.permits.grant({2, 0, nullptr, false});
  f.permits.grant({3, 1, nullptr, false});
  f.permits.grant({5, 2, nullptr, true});
  std::vector<int64_t> epochs;
  int64_t step = 0;
  for (; auto turn = f.permits.turn(step, 0); ++step)
    epochs.push_back(turn->epoch);
  EXPECT_EQ(epochs, (std::vector<int64_t>{0, 0, 1, 2, 2}));
  EXPECT_EQ(f.permits.end(), 5);
  EXPECT_EQ(f.permits.waits().count(), 6);
  EXPECT_EQ(f.asked, (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
}

TEST(Permits, WhoWantsNoMoreStepsBeginsNoneThatIsPermitted) {
  Fixture f;
  f.permits.grant({2, 0, nullptr, false});
  EXPECT_TRUE(f.permits.turn(0, 0));
  f.wanted = false;
  std::thread later([&] {
    f.permits.grant({3, 0, nullptr, false}); // others go on: not for this one
    f.permits.grant({1, 0, nullptr, true});
  });
  EXPECT_FALSE(f.permits.turn(1, 0));
  later.join();
  EXPECT_FALSE(f.failure.raised());
}

TEST(Permits, WhoHasNothingToDoTakesWhatOthersAskForAndWaitsForThem) {
  Failure failure;
  Doing doing;
  int asked = 0, waited = 0;
  Permits permits(
      0, 0, doing, failure,
      {[&](int64_t) { return ++asked > 0; }, [](int64_t) {}, [](int64_t) { return true; }, {}, {}, [&] { ++waited; }});
  permits.grant({3, 0, nullptr, true});
  int64_t step = 0;
  for (; permits.turn(step, 0); ++step)
    EXPECT_EQ(waited, 0);
  EXPECT_EQ(step, 3);
  EXPECT_EQ(waited, 1);
  EXPECT_EQ(asked, 0);
  EXPECT_EQ(permits.waits().count(), 0);
}

TEST(Permits, StagesAreCutAnewOnceBeforeTheFirstStepThatNeedsIt) {
  Fixture f;
  const auto plan = std::make_shared<const plan::Plan>();
  f.permits.grant({2, 0, nullptr, false});
  f.permits.grant({5, 1, nullptr, true, plan});
  std::vector<int64_t> rested;
  for (int64_t step = 0; auto turn = f.permits.turn(step, 0); ++step)
    if (turn->rest) {
      rested.push_back(step);
      EXPECT_TRUE(f.permits.atRest(step));
    }
  EXPECT_EQ(rested, (std::vector<int64_t>{2}));
  ASSERT_EQ(f.recut.size(), 1u);
  EXPECT_EQ(f.recut.front(), std::make_pair(int64_t(2), plan));
}

TEST(Permits, AStepLacksItsPermitUntilItComes) {
  Fixture f;
  EXPECT_TRUE(f.permits.lacks(0));
  f.permits.grant({1, 0, nullptr, false});
  EXPECT_FALSE(f.permits.lacks(0));
  EXPECT_TRUE(f.permits.lacks(1));
  f.permits.grant({1, 0, nullptr, true});
  EXPECT_FALSE(f.permits.lacks(1)); // it is known that there is none
}

/// What is issued goes on meanwhile.
TEST(Permits, NoStepWaitsWhileTheOneBeforeRuns) {
  Fixture f;
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    f.permits.grant({1, 0, nullptr, false});
  });
  EXPECT_TRUE(f.permits.turn(0, 1'000'000'000'000'000));
  other.join();
  EXPECT_EQ(f.permits.waits().max(), 0);
}

TEST(Permits, AnEndWithoutAnyStep) {
  Fixture f;
  f.permits.grant({0, 0, nullptr, true});
  EXPECT_FALSE(f.permits.turn(0, 0));
  EXPECT_FALSE(f.failure.raised());
}

TEST(Permits, ALastPermitMayAddNothing) {
  Fixture f;
  f.permits.grant({1, 0, nullptr, false});
  EXPECT_TRUE(f.permits.turn(0, 0));
  f.permits.grant({1, 0, nullptr, true});
  EXPECT_FALSE(f.permits.turn(1, 0));
}

TEST(Permits, AWaitEndsWithThePermit) {
  Fixture f;
  std::thread other([&] { f.permits.grant({1, 7, nullptr, true}); });
  auto turn = f.permits.turn(0, 0);
  other.join();
  ASSERT_TRUE(turn);
  EXPECT_EQ(turn->epoch, 7);
}

TEST(Permits, AWaitEndsWithTheRun) {
  Fixture f;
  std::thread other([&] { f.failure.raise(Status::run("lost")); });
  EXPECT_FALSE(f.permits.turn(0, 0));
  other.join();
}

TEST(Permits, WhoWaitsSaysForWhat) {
  Fixture f;
  std::thread other([&] {
    std::optional<Doing::What> what;
    while (!(what = f.doing.look()))
      std::this_thread::yield();
    EXPECT_EQ(what->text, "permit for step 0");
    EXPECT_TRUE(what->waits);
    f.permits.grant({1, 0, nullptr, true});
  });
  EXPECT_TRUE(f.permits.turn(0, 0));
  other.join();
  EXPECT_FALSE(f.doing.look());
}

TEST(Permits, RestsWhereACheckpointIsDue) {
  Fixture f(10, 5);
  f.permits.grant({21, 0, nullptr, true});
  std::vector<int64_t> rests;
  for (int64_t step = 10; auto turn = f.permits.turn(step, 0); ++step)
    if (turn->rest)
      rests.push_back(step);
  EXPECT_EQ(rests, (std::vector<int64_t>{15, 20})); // not before the first one
}

} // namespace
