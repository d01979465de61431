// A job that takes the plan's time for its atoms and computes only their number. Its provider may make it deviate:
// {"times": 5} makes atoms take five times as long as stated, {"fails": 100} makes atom 100 an error.
#pragma once

#include "runtime/job/Job.h"

namespace pipec::runtime {

/// For the host alone.
class SyntheticJob final : public Job {
public:
  /// Code::Input if the provider's values are wrong. `clock` must outlive the job.
  static Status make(const JobSetup &setup, const Clock &clock, std::unique_ptr<Job> &job);

  Status run(int64_t first, int64_t count, plan::Time due, void *stream) override;
  plan::Time emulated(int64_t count) const override;
  bool saves() const override { return true; }
  Status save(const std::string &path, int64_t atoms) override;
  Status load(const std::string &path, int64_t atoms) override;
  JobMemory memory() const override { return {}; }

private:
  SyntheticJob(const JobSetup &setup, const Clock &clock) : place(nameOf(setup)), atom(setup.atom), clock(clock) {}

  const std::string place; // rank and job
  plan::Time atom;
  int64_t fails = -1; // the atom that fails; -1: none
  int64_t done = 0;   // number of atoms that have run
  const Clock &clock;
};

} // namespace pipec::runtime
