// The choice of a job.
#include "runtime/job/MakeJob.h"

#include "runtime/job/LibraryJob.h"
#include "runtime/job/SyntheticJob.h"

#include <fmt/format.h>

namespace pipec::runtime {

Status checkJob(const std::string &choice) {
  if (choice == kSyntheticJob)
    return {};
  // A library is named by its path; a plain word was meant as the name of a job.
  if (choice.find('/') == std::string::npos && choice.find('.') == std::string::npos)
    return Status::usage("--job=" + choice + ": there is no such job; use synthetic or the path of a library");
  Status status = tryJobLibrary(choice);
  return status.ok() ? status : Status::usage("--job: " + status.message);
}

Status makeJob(const std::string &choice, const JobSetup &setup, const Clock &clock, std::unique_ptr<Job> &job) {
  if (choice == kSyntheticJob)
    return SyntheticJob::make(setup, clock, job);
  JobLibrary library;
  Status status = openJobLibrary(choice, library);
  return status.ok() ? LibraryJob::make(library, setup, job) : status;
}

} // namespace pipec::runtime
