// Rules P54 and P55, and what P35 asks of jobs, each broken in a plan that is right otherwise.
#include "runtime/plan/Disassemble.h"
#include "runtime/plan/Limits.h"
#include "test/plan/MakeJobs.h"
#include "test/plan/MakeShards.h"

#include <gmock/gmock.h>

namespace pipec::plan {
namespace {

using namespace test;
using testing::HasSubstr;

class JobRules : public ::testing::Test {
protected:
  Plan plan = makeJobs();
  Variant &variant() { return plan.variants[0]; }
  Program &rank(size_t r) { return variant().programs[r]; }
  Window &window() { return rank(1).windows[0]; }

  /// After one change to the right plan.
  template <typename Change> void refused(const char *label, const std::string &what, Change change) {
    plan = makeJobs();
    change();
    expectRefused(plan, label, Code::Input);
    EXPECT_THAT(verify(plan).message, HasSubstr(what));
  }
};

TEST_F(JobRules, RightPlansPass) {
  const Status status = verify(plan);
  EXPECT_TRUE(status.ok()) << status.message;
  Plan read;
  EXPECT_TRUE(decode(encode(plan), read).ok());
  EXPECT_EQ(read, plan);
}

TEST_F(JobRules, P54WindowsAreOfPassesThatWait) {
  refused("P54", "is of none: there are", [&] { window().instruction = 1000; });
  refused("P54", "expected ascending", [&] { std::swap(rank(1).windows[0], rank(1).windows[1]); });
  refused("P54", "expected ascending", [&] { rank(1).windows[1] = window(); });
  refused("P54", "is not of the compute queue", [&] {
    const Instruction &recv = firstOf(rank(1), Kind::Recv);
    window().instruction = uint32_t(&recv - rank(1).instructions.data());
  });
  refused("P54", "is of one without waits", [&] {
    for (uint32_t i = rank(1).windows.back().instruction; i != rank(1).instructions.size(); ++i)
      if (rank(1).instructions[i].queue == 0 && rank(1).instructions[i].waits == 0) {
        rank(1).windows.back().instruction = i;
        return;
      }
    FAIL() << "every pass waits";
  });
  refused("P54", "is 300 us, shorter than a piece with its overhead, 320 us", [&] { window().length = 300'000'000; });
  refused("P54", "longer than a step", [&] { window().length = variant().certificate.span + 1; });
}

TEST_F(JobRules, P55JobsAreInRange) {
  Job &job = variant().jobs[0];
  (void)job;
  const auto ofJob = [&](const std::string &what, auto change) {
    refused("P55", what, [&] { change(variant().jobs[0]); });
  };
  ofJob("job 0: a name of 1 to 64 letters", [](Job &job) { job.name = "a b"; });
  ofJob("job 0: a name of 1 to 64 letters", [](Job &job) { job.name = ""; });
  ofJob("have one name, other", [](Job &job) { job.name = "other"; });
  ofJob("0 samples, expected 1", [](Job &job) { job.samples = 0; });
  ofJob("0 atoms, expected 1", [](Job &job) { job.atoms = 0; });
  ofJob("0 ps of an atom, expected 1", [](Job &job) { job.atom = 0; });
  ofJob("-1 ps of overhead, expected 0", [](Job &job) { job.overhead = -1; });
  ofJob("-1 bytes of memory, expected 0", [](Job &job) { job.memory = -1; });
  ofJob("262145 bytes of values, expected 0",
        [](Job &job) { job.provider.assign(size_t(limits::kProviderBytes) + 1, 0); });
  ofJob("its values are no FlexBuffer", [](Job &job) { job.provider = {9}; });
  refused("P55", "257 jobs, expected at most 256", [&] { variant().jobs.resize(257); });
  refused("P55", "-1 millionths, expected 0 to 1000000", [&] { variant().slowDown = -1; });
  refused("P55", "rank 1 runs job 2, the plan has 2", [&] { rank(1).job = 2; });
  refused("P55", "rank 1 has a piece or windows and no job", [&] { rank(1).job = -1; });
  refused("P55", "a piece of 0 atoms, expected 1 or more", [&] { rank(1).piece = 0; });
  refused("P55", "pieces add -1 ps to a step", [&] { variant().certificate.delay = -1; });
  refused("P55", "variant 1 has other jobs than variant 0", [&] {
    plan.variants.push_back(variant());
    plan.variants[1].programs[1].job = 1;
    plan.variants[1].programs[1].piece = 400'000'000;
  });
  Sharded how;
  how.make.ranks = 2;
  plan = makeShards(how);
  variant().jobs = makeJobs().variants[0].jobs;
  rank(0).job = 0;
  rank(0).piece = 1;
  expectRefused(plan, "P55", Code::Input);
  EXPECT_THAT(verify(plan).message, HasSubstr("runs a job and has shards, which is not supported yet"));
}

TEST_F(JobRules, P35CountsTheMemoryOfAJob) {
  variant().jobs[0].memory = Bytes(40) << 30;
  expectRefused(plan, "P35", Code::Check);
  EXPECT_THAT(verify(plan).message, HasSubstr("40 GiB of its job"));
}

TEST_F(JobRules, AreDisassembled) {
  const std::string text = disassemble(plan, {});
  EXPECT_THAT(text, HasSubstr("  job vgg: 8 samples in 340 atoms of 50 us, 20 us a piece besides, memory 1 GiB\n"));
  EXPECT_THAT(text, HasSubstr("  delay 640 us a step in any timing, 1 % promised\n"));
  EXPECT_THAT(text, HasSubstr("    job vgg in pieces of 6 atoms, 320 us with overhead\n"));
  EXPECT_THAT(text, HasSubstr("  window 3"));
}

} // namespace
} // namespace pipec::plan
