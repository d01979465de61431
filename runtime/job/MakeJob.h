// From a choice of what a job computes to the job.
#pragma once

#include "runtime/job/Job.h"

namespace pipec::runtime {

/// A job's choice: "synthetic", which takes the time of its atoms and computes nothing, or the path of a library.
inline constexpr const char *kSyntheticJob = "synthetic";

/// Ok if `choice` is a job; else Code::Usage, with what is wrong with its name or library, which is loaded in a process
/// of its own. Call this before processes are started, while this process has one thread.
Status checkJob(const std::string &choice);

/// Code::Input: the provider's values are wrong, the library cannot be loaded, is of another version, or lacks a
/// function. Code::Run, naming rank and job: it cannot be made. `clock` outlives the job.
Status makeJob(const std::string &choice, const JobSetup &setup, const Clock &clock, std::unique_ptr<Job> &job);

} // namespace pipec::runtime
