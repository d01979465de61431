// The synthetic job: atoms never take less than stated, and its provider makes it lie.
#include "runtime/job/MakeJob.h"
#include "test/launch/TempFolder.h"

#include <fstream>
#include <gtest/gtest.h>

using namespace pipec;
using namespace pipec::runtime;

namespace {

constexpr plan::Time kMs = 1'000'000'000;

class SyntheticJob : public test::TempFolder {
protected:
  Status make(const char *provider, plan::Time atom = kMs) {
    JobSetup setup{.name = "busy", .rank = 3, .atoms = 10, .atom = atom};
    setup.provider = provider;
    return makeJob("synthetic", setup, clock, job);
  }
  /// How long a piece takes that must run.
  plan::Time took(int64_t first, int64_t count) {
    const plan::Time start = clock.now();
    const Status status = job->run(first, count);
    EXPECT_TRUE(status.ok()) << status.message;
    return clock.now() - start;
  }

  const Clock clock{Clock::monotonic()};
  std::unique_ptr<Job> job;
};

TEST_F(SyntheticJob, TakesTheTimeOfItsAtoms) {
  ASSERT_TRUE(make("null").ok());
  EXPECT_GE(took(0, 1), kMs);
  EXPECT_GE(took(1, 12), 12 * kMs);
  ASSERT_TRUE(make(R"({"times": 5})").ok());
  EXPECT_GE(took(0, 4), 20 * kMs);
  ASSERT_TRUE(make(R"({"times": 1.5})").ok());
  EXPECT_GE(took(0, 4), 6 * kMs);
  ASSERT_TRUE(make(R"({"times": 0})").ok());
  took(0, INT64_MAX);
}

TEST_F(SyntheticJob, RunsEveryAtomOnce) {
  ASSERT_TRUE(make("{}").ok());
  took(0, 2);
  const Status status = job->run(3, 1);
  EXPECT_EQ(status.code, Code::Run);
  EXPECT_EQ(status.message, "rank 3: job busy: goes on at atom 3, expected 2");
  EXPECT_EQ(job->memory().held, 0);
}

TEST_F(SyntheticJob, FailsAtTheAtomThatItsProviderNames) {
  ASSERT_TRUE(make(R"({"fails": 5})").ok());
  took(0, 5);
  const Status status = job->run(5, 1);
  EXPECT_EQ(status.code, Code::Run);
  EXPECT_EQ(status.message, "rank 3: job busy: atom 5 fails, as its provider says");
  ASSERT_TRUE(make(R"({"fails": 5, "times": 2})").ok());
  const plan::Time start = clock.now();
  EXPECT_FALSE(job->run(0, 9).ok());
  EXPECT_GE(clock.now() - start, 10 * kMs) << "the atoms before it run";
  EXPECT_TRUE(job->save(folder + "/state", 5).ok());
}

TEST_F(SyntheticJob, SavesHowManyAtomsHaveRun) {
  ASSERT_TRUE(make("null").ok());
  took(0, 7);
  ASSERT_TRUE(job->saves());
  const std::string path = folder + "/state";
  EXPECT_EQ(job->save(path, 6).message, "rank 3: job busy: cannot save: 7 atoms have run, expected 6");
  ASSERT_TRUE(job->save(path, 7).ok());
  EXPECT_EQ(job->save(folder + "/no/state", 7).message,
            "rank 3: job busy: cannot save: " + folder + "/no/state: cannot be written");
  ASSERT_TRUE(make("null").ok());
  EXPECT_EQ(job->load(folder + "/absent", 7).message,
            "rank 3: job busy: cannot load: " + folder + "/absent: cannot be read");
  EXPECT_EQ(job->load(path, 8).message,
            "rank 3: job busy: cannot load: " + path + ": is not the state of a synthetic job after 8 atoms");
  ASSERT_TRUE(job->load(path, 7).ok());
  took(7, 1);
}

TEST_F(SyntheticJob, RefusesAWrongProvider) {
  const auto says = [&](const char *provider) {
    const Status status = make(provider);
    EXPECT_EQ(status.code, Code::Input);
    return status.message;
  };
  const std::string own = "rank 3: job busy: provider: ";
  EXPECT_EQ(says("[1]"), own + "[1]: expected times, fails, or nothing");
  EXPECT_EQ(says("{"), own + "no JSON: expected times, fails, or nothing");
  EXPECT_EQ(says(R"({"tines": 5})"), own + "tines: there is no such value, expected times or fails");
  for (const std::string times : {"-1", "\"5\"", "1000001"})
    EXPECT_EQ(says(("{\"times\":" + times + "}").c_str()),
              own + "times is " + times + ", expected a number from 0 to 1000000");
  for (const std::string fails : {"-1", "1.5", "18446744073709551615"})
    EXPECT_EQ(says(("{\"fails\":" + fails + "}").c_str()), own + "fails is " + fails + ", expected an atom, from 0");
}

TEST_F(SyntheticJob, IsForTheHost) {
  const Status status = makeJob("synthetic", {.name = "busy", .device = 0}, clock, job);
  EXPECT_EQ(status.code, Code::Input);
  EXPECT_EQ(status.message, "rank 0: job busy: the synthetic job is for the host alone");
}

} // namespace
