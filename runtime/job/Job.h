// A job is the background work that a process computes while its rank waits. The device decides how many atoms a piece
// has; a job knows nothing of the training beside it.
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
  plan::Time atom = 0;           // the longest that an atom takes, 0 to limits::kTime
  plan::Bytes memory = 0;        // bytes that the plan counts for the job
  std::string provider = "null"; // JSON text
  int32_t device = -1;           // number of the CUDA device; -1: the host
  void *context = nullptr;       // the CUDA context; null on the host
};

/// "rank 1: job vgg".
inline std::string nameOf(const JobSetup &setup) {
  return "rank " + std::to_string(setup.rank) + ": job " + setup.name;
}

/// The memory of a job, in bytes.
struct JobMemory {
  plan::Bytes held = 0; // held now
  plan::Bytes peak = 0; // the most ever held
};

/// Calls never overlap, but may come from several threads. Each Status names rank and job, Code::Run; after an error
/// the job has ended, and the training goes on without it.
class Job {
public:
  Job() = default;
  Job(const Job &) = delete;
  virtual ~Job() = default;

  /// Runs `count` atoms, at least one. `first`: the number of atoms that have run before, those before a load included.
  /// On the host the atoms have run when this returns. `due`: when they should begin, from which an emulated time
  /// counts; kNow: at once. `stream`: the CUDA stream on which the atoms are enqueued.
  virtual Status run(int64_t first, int64_t count, plan::Time due = kNow, void *stream = nullptr) = 0;
  static constexpr plan::Time kNow = -1;
  /// The duration of `count` atoms, if it is emulated; -1: it is measured.
  virtual plan::Time emulated(int64_t count) const {
    (void)count;
    return -1;
  }

  /// Whether the job can save and load; else these must not be called.
  virtual bool saves() const = 0;
  /// Writes the state after `atoms` atoms in total to a new file.
  virtual Status save(const std::string &path, int64_t atoms) = 0;
  /// Reads that state, before the first run.
  virtual Status load(const std::string &path, int64_t atoms) = 0;

  virtual JobMemory memory() const = 0;
};

} // namespace pipec::runtime
