// Makes a job from the choice of what it computes.
#pragma once

#include "runtime/job/Job.h"

namespace pipec::runtime {

/// A job's choice: "synthetic", which takes the time of its atoms and computes nothing, or the path of a library.
inline constexpr const char *kSyntheticJob = "synthetic";

/// Ok if `choice` is a job; else Code::Usage, with what is wrong with its name or library, which is loaded in a child
/// process. Call this before processes are started, while this process has one thread.
Status checkJob(const std::string &choice);

/// Code::Input: the provider's values are wrong, or the library cannot be loaded, has another version, or lacks a
/// function. Code::Run, naming rank and job: the job cannot be made. `clock` must outlive the job.
Status makeJob(const std::string &choice, const JobSetup &setup, const Clock &clock, std::unique_ptr<Job> &job);

} // namespace pipec::runtime
