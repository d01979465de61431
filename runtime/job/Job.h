// A background job of one process: what it computes while its rank waits. Whoever owns the waits decides how many atoms
// a piece has; a job knows nothing of the training beside it.
#pragma once

#include "runtime/device/Clock.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"

#include <memory>
#include <string>

namespace pipec::runtime {

/// What a job is told, from the plan's table of jobs and the place of its process.
struct JobSetup {
  std::string name;
  int32_t rank = 0;
  int32_t worldRank = 0;
  int32_t world = 1;
  int64_t samples = 1;           // of an iteration
  int64_t atoms = 1;             // of an iteration
  plan::Time atom = 0;           // the longest that one takes, 0 to limits::kTime
  plan::Bytes memory = 0;        // that the plan counts for it
  std::string provider = "null"; // JSON text
  int32_t device = -1;           // of CUDA; -1: the host
  void *context = nullptr;       // CUDA's; null on the host
};

/// "rank 1: job vgg".
inline std::string nameOf(const JobSetup &setup) {
  return "rank " + std::to_string(setup.rank) + ": job " + setup.name;
}

/// Bytes.
struct JobMemory {
  plan::Bytes held = 0; // now
  plan::Bytes peak = 0; // most ever
};

/// Calls never overlap, but may come from several threads. Each Status names rank and job, Code::Run; after one that is
/// not ok the job is at its end, and the training goes on without it.
class Job {
public:
  Job() = default;
  Job(const Job &) = delete;
  virtual ~Job() = default;

  /// Runs so many atoms, at least one; `first`: so many have run before, those before a load included. On the host they
  /// have run when this returns. `due`: when they should begin, from which an emulated time counts; kNow: at once.
  /// `stream`: CUDA's, on which they are enqueued.
  virtual Status run(int64_t first, int64_t count, plan::Time due = kNow, void *stream = nullptr) = 0;
  static constexpr plan::Time kNow = -1;
  /// What so many atoms take, where that is emulated; -1: what they take is measured.
  virtual plan::Time emulated(int64_t count) const {
    (void)count;
    return -1;
  }

  /// Whether save and load do anything; else they must not be called.
  virtual bool saves() const = 0;
  /// To a new file: the state behind so many atoms in all.
  virtual Status save(const std::string &path, int64_t atoms) = 0;
  /// The opposite, before the first run.
  virtual Status load(const std::string &path, int64_t atoms) = 0;

  virtual JobMemory memory() const = 0;
};

} // namespace pipec::runtime
