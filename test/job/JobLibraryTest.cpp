// Job libraries that are wrong: what is said of each; and what a right one is told and says.
#include "runtime/job/LibraryJob.h"
#include "runtime/job/MakeJob.h"
#include "runtime/library/LibraryCall.h"
#include "runtime/stage/pipec_stage.h" // beside the job's: no name is in both

#include <cstddef>
#include <gtest/gtest.h>
#include <stdexcept>

using namespace pipec;
using namespace pipec::runtime;

namespace {

std::string probe(const std::string &name) { return PIPEC_PROBES "/job-" + name + ".so"; }

struct Wrong {
  const char *name;
  const char *says;
};
class WrongJobLibrary : public testing::TestWithParam<Wrong> {};

TEST_P(WrongJobLibrary, IsRefusedBeforeAnythingStarts) {
  const std::string path = probe(GetParam().name);
  const Status status = checkJob(path);
  EXPECT_EQ(status.code, Code::Usage);
  EXPECT_EQ(status.message.find("--job: " + path + ": "), 0u) << status.message;
  EXPECT_NE(status.message.find(GetParam().says), std::string::npos) << status.message;
  if (std::string(GetParam().name) == "crashes")
    return;
  std::unique_ptr<Job> job;
  const Status made = makeJob(path, {}, Clock(0), job);
  EXPECT_EQ(made.code, Code::Input);
  EXPECT_EQ("--job: " + made.message, status.message);
  EXPECT_EQ(job, nullptr);
}

INSTANTIATE_TEST_SUITE_P(
    Job, WrongJobLibrary,
    testing::Values(Wrong{"absent", "there is no such job library"},
                    Wrong{"version", "is built for version 2 of pipec_job.h, expected version 1; build it again with "
                                     "the header of this piperun"},
                    Wrong{"no-version", "is not a job library, it has no pipec_job_version (see pipec_job.h)"},
                    Wrong{"no-run", "the job library has no pipec_job_run"},
                    Wrong{"undefined", "cannot be loaded as a job library: "},
                    Wrong{"saves-alone", "has pipec_job_save and no pipec_job_load, expected both or neither"},
                    Wrong{"loads-alone", "has pipec_job_load and no pipec_job_save, expected both or neither"},
                    Wrong{"crashes", "loading this job library ends the process with signal 6"}),
    [](const auto &info) {
      std::string name = info.param.name;
      std::erase(name, '-');
      return name;
    });

TEST(JobLibrary, WhatIsNoLibraryIsRefused) {
  EXPECT_TRUE(checkJob("synthetic").ok());
  EXPECT_TRUE(checkJob(probe("right")).ok());
  EXPECT_TRUE(checkJob(probe("beside")).ok());
  EXPECT_NE(checkJob("/").message.find("cannot be loaded as a job library"), std::string::npos);
  for (const char *name : {"vgg", ""}) {
    const Status status = checkJob(name);
    EXPECT_EQ(status.code, Code::Usage);
    EXPECT_EQ(status.message,
              std::string("--job=") + name + ": there is no such job; use synthetic or the path of a library");
  }
}

TEST(JobLibrary, AStructHasWhatItsSizeCovers) {
  PipecJobSetup setup{};
  setup.size = sizeof setup;
  EXPECT_TRUE(PIPEC_JOB_HAS(&setup, context));
  setup.size = offsetof(PipecJobSetup, context);
  EXPECT_FALSE(PIPEC_JOB_HAS(&setup, context));
  EXPECT_TRUE(PIPEC_JOB_HAS(&setup, device));
}

TEST(JobLibrary, AnExceptionIsAMessage) {
  const std::function<int(PipecJobError *)> known = [](PipecJobError *) -> int { throw std::runtime_error("mine"); };
  const std::function<int(PipecJobError *)> other = [](PipecJobError *) -> int { throw 3; };
  EXPECT_EQ(callLibrary<PipecJobError>("job library", known), "the job library threw an exception: mine");
  EXPECT_EQ(callLibrary<PipecJobError>("job library", other), "the job library threw an exception");
}

/// A job of the probe, told what to do.
class JobProbe : public testing::Test {
protected:
  std::string make(const char *at, const char *library = "right") {
    job.reset();
    JobSetup setup{.name = "vgg", .rank = 1, .worldRank = 2, .world = 4, .samples = 8, .atoms = 340, .memory = 99};
    setup.provider = std::string(R"({"at":")") + at + "\"}";
    return makeJob(probe(library), setup, clock, job).message;
  }

  const Clock clock{0};
  std::unique_ptr<Job> job;
};

TEST_F(JobProbe, IsTold) {
  EXPECT_EQ(make("told"), "rank 1: job vgg: size 1, vgg on rank 1, process 2 of 4, 8 samples in 340 atoms, 99 bytes, "
                          "device -1, 1");
}

TEST_F(JobProbe, RunsPieces) {
  ASSERT_EQ(make("", "beside"), "");
  EXPECT_FALSE(job->saves());
  EXPECT_EQ(job->memory().held, 0);
  EXPECT_TRUE(job->run(0, 7).ok());
  EXPECT_TRUE(job->run(7, 1).ok());
  EXPECT_EQ(job->memory().held, 8);
  EXPECT_EQ(job->memory().peak, 100);
  EXPECT_EQ(job->run(7, 1).message, "rank 1: job vgg: is told something else");
}

TEST_F(JobProbe, SaysWhatWentWrong) {
  EXPECT_EQ(make("create"), "rank 1: job vgg: wrong at \"create\"");
  EXPECT_EQ(make("nothing"), "rank 1: job vgg: pipec_job_create made no job");
  ASSERT_EQ(make("run", "saves"), "");
  Status status = job->run(0, 1);
  EXPECT_EQ(status.code, Code::Run);
  EXPECT_EQ(status.message, "rank 1: job vgg: wrong at \"run\"");
  EXPECT_TRUE(job->saves());
  EXPECT_TRUE(job->save("state", 1).ok());
  ASSERT_EQ(make("silent"), "");
  EXPECT_EQ(job->run(0, 1).message, "rank 1: job vgg: the job library failed with code 7 and no message");
  ASSERT_EQ(make("save", "saves"), "");
  EXPECT_EQ(job->save("state", 0).message, "rank 1: job vgg: cannot save: wrong at \"save\"");
  ASSERT_EQ(make("load", "saves"), "");
  EXPECT_EQ(job->load("state", 5).message, "rank 1: job vgg: cannot load: wrong at \"load\"");
}

} // namespace
