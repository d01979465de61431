// A job as what fills the waits of a device: how many atoms a piece has, whose time counts, when a job rests.
#include "runtime/job/JobFiller.h"

#include <gtest/gtest.h>

using namespace pipec::runtime;
using pipec::Code;
using pipec::Status;
using pipec::plan::Time;

namespace {

constexpr Time kMs = 1'000'000'000;

/// Its atoms take `atom` of an emulated time, which passes at once.
class Paper final : public Job {
public:
  explicit Paper(Time atom) : atom(atom) {}
  Status run(int64_t first, int64_t count, Time, void *) override {
    EXPECT_EQ(first, ran);
    ran += count;
    counts.push_back(count);
    return fails ? Status::run("it has had enough") : Status{};
  }
  Time emulated(int64_t count) const override { return count * atom; }
  bool saves() const override { return true; }
  Status save(const std::string &, int64_t) override { return {}; }
  Status load(const std::string &, int64_t atoms) override {
    ran = atoms;
    return {};
  }
  JobMemory memory() const override { return {}; }

  Time atom;
  int64_t ran = 0;
  std::vector<int64_t> counts;
  bool fails = false;
};

class JobFillerTest : public testing::Test {
protected:
  JobFillerTest() { start(kMs); }
  /// Planned: atoms of 1 ms, and half a millisecond of overhead. In the past of the clock, so that nothing waits.
  void start(Time atom) {
    auto made = std::make_unique<Paper>(atom);
    job = made.get();
    filler.emplace(std::move(made), pipec::plan::Job{"paper", 1, 8, kMs, kMs / 2, 0, {}}, clock, Pace::Carry);
  }
  Clock clock{Clock::monotonic() - 1'000'000'000'000};
  Paper *job = nullptr;
  std::optional<JobFiller> filler;
};

TEST_F(JobFillerTest, APieceEndsWhenItsTimeSays) {
  EXPECT_EQ(filler->next(4), 4 * kMs + kMs / 2);
  EXPECT_EQ(filler->run(4, 100 * kMs), 104 * kMs + kMs / 2);
  EXPECT_EQ(filler->run(4, 200 * kMs), 204 * kMs + kMs / 2);
  EXPECT_EQ(filler->pieces(), 2);
  EXPECT_EQ(filler->atoms(), 8);
}

TEST_F(JobFillerTest, SlowerAtomsMakeFewerAPiece) {
  start(2 * kMs);
  EXPECT_EQ(filler->run(6, 0), 12 * kMs + kMs / 2); // it was not known
  EXPECT_EQ(filler->next(6), 6 * kMs + kMs / 2);
  EXPECT_EQ(filler->run(6, 100 * kMs), 106 * kMs + kMs / 2);
  EXPECT_EQ(job->counts, (std::vector<int64_t>{6, 3}));
  job->atom = kMs / 2;
  for (int i = 0; i != 64; ++i)
    filler->run(6, 0);
  filler->run(6, 0);
  EXPECT_EQ(job->counts.back(), 12); // as fast as it has been for the last 64 pieces
}

TEST_F(JobFillerTest, AJobWhoseAtomIsTooLongRests) {
  start(7 * kMs);
  for (int i = 0; i != 3; ++i) {
    EXPECT_EQ(filler->next(6), 6 * kMs + kMs / 2);
    filler->run(6, 0);
  }
  EXPECT_EQ(job->counts, (std::vector<int64_t>{6, 1, 1}));
  EXPECT_EQ(filler->ended(), "job paper rests: an atom takes 7000 us, a piece of it may take 6000 us");
  EXPECT_EQ(filler->next(6), 0);
  EXPECT_FALSE(filler->saves());
}

TEST_F(JobFillerTest, AnErrorEndsTheJob) {
  job->fails = true;
  filler->run(2, 0);
  EXPECT_EQ(filler->ended(), "it has had enough");
  EXPECT_EQ(filler->next(2), 0);
  EXPECT_EQ(filler->pieces(), 0);
}

TEST_F(JobFillerTest, GoesOnBehindALoad) {
  EXPECT_TRUE(filler->load("state", 100).ok());
  filler->run(3, 0);
  EXPECT_EQ(filler->atoms(), 103);
}

TEST_F(JobFillerTest, TheLongestWindowsStayOpen) {
  const std::vector<Time> windows = {9, 7, 7, 3};
  EXPECT_TRUE(filler->opens(3, windows));
  filler->setLevel(750);
  EXPECT_TRUE(filler->opens(7, windows));
  EXPECT_FALSE(filler->opens(3, windows));
  filler->setLevel(1);
  EXPECT_TRUE(filler->opens(9, windows));
  EXPECT_FALSE(filler->opens(7, windows));
  filler->setLevel(0);
  EXPECT_FALSE(filler->opens(9, windows));
}

TEST_F(JobFillerTest, KnowsStepsWithAndWithoutPieces) {
  Time end = 50;
  for (int64_t step = 0; step != 96; ++step) {
    EXPECT_EQ(Filler::isSolo(step), step % 32 == 31);
    filler->stepped(step, end += Filler::isSolo(step) ? 100 : 101 + step % 3);
    EXPECT_EQ(filler->paces().rounds, (step + 1) / 32);
  }
  EXPECT_EQ(filler->paces().solo, 100);
  EXPECT_EQ(filler->paces().filled, 102);
}

} // namespace
