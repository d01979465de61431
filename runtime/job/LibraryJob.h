// A job in a user's library (pipec_job.h). Each piece is one call, with its real duration.
#pragma once

#include "runtime/job/Job.h"
#include "runtime/job/pipec_job.h"

#include <functional>

namespace pipec::runtime {

/// The functions of a library, found by name. The library stays loaded until the process ends.
struct JobLibrary {
  std::function<decltype(pipec_job_create)> create;
  std::function<decltype(pipec_job_destroy)> destroy;
  std::function<decltype(pipec_job_run)> run;
  std::function<decltype(pipec_job_save)> save; // both or neither
  std::function<decltype(pipec_job_load)> load;
  std::function<decltype(pipec_job_memory)> memory;
};

/// Opens the library at exactly `path`. Code::Input if it cannot be loaded, has another version, or lacks a function.
Status openJobLibrary(const std::string &path, JobLibrary &library);

/// Tries to open the library in a child process, so that nothing of it stays in this one. This process must have one
/// thread.
Status tryJobLibrary(const std::string &path);

class LibraryJob final : public Job {
public:
  static Status make(const JobLibrary &library, const JobSetup &setup, std::unique_ptr<Job> &job);
  ~LibraryJob() override;

  Status run(int64_t first, int64_t count, plan::Time due, void *stream) override;
  bool saves() const override { return bool(library.save); }
  Status save(const std::string &path, int64_t atoms) override;
  Status load(const std::string &path, int64_t atoms) override;
  JobMemory memory() const override;

private:
  LibraryJob(const JobLibrary &library, std::string place) : library(library), place(std::move(place)) {}

  const JobLibrary library;
  const std::string place; // rank and job
  PipecJob *object = nullptr;
};

} // namespace pipec::runtime
