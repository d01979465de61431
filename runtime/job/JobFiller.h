// A JobFiller runs a process's background job in the waits of its device. The plan's duration of an atom is not
// trusted: a piece has as many atoms as fit into its planned length if each takes as long as the slowest recent one,
// and at least one. A job stops for good once a single atom has taken longer than that in three pieces in a row, or
// when it fails.
#pragma once

#include "runtime/device/Filler.h"
#include "runtime/device/Pace.h"
#include "runtime/job/Job.h"

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace pipec::runtime {

class JobFiller final : public Filler {
public:
  /// `clock` must outlive this object. If time is emulated, so is the time of a job that knows its duration
  /// (Job::emulated).
  JobFiller(std::unique_ptr<Job> job, const plan::Job &planned, const Clock &clock, Pace pace);

  bool opens(plan::Time window, const std::vector<plan::Time> &windows) const override;
  void stepped(int64_t step, plan::Time end) override;
  plan::Time next(int64_t atoms) const override;
  plan::Time run(int64_t atoms, plan::Time begin) override;

  // From any thread.

  /// The share of a step's windows that may be filled, in thousandths, the longest first.
  void setLevel(int thousandths) { level = thousandths; }
  /// Median step times, picoseconds: of the last 8 steps without pieces, and of the steps with pieces since the last of
  /// these. `rounds`: how often they have been determined.
  struct Paced {
    plan::Time solo = 0, filled = 0;
    int64_t rounds = 0;
  };
  Paced paces() const;

  // While no piece runs.

  /// Whether the job has a state to save: Job::saves(), and it has not ended.
  bool saves() const { return job->saves() && why.empty(); }
  Status save(const std::string &path) { return job->save(path, done); }
  /// Before the first piece.
  Status load(const std::string &path, int64_t atoms);
  /// Ends the job: no piece runs from now on.
  void end(std::string reason) { why = std::move(reason); }
  int64_t pieces() const { return pieceCount; }
  int64_t atoms() const { return done; } // in total, those before a load included
  /// Why the job has ended or stopped; empty: it goes on.
  const std::string &ended() const { return why; }

private:
  static constexpr size_t kMeasured = 64; // pieces that are remembered
  static constexpr int kPatience = 3;     // pieces in a row with atoms that take too long

  int64_t atomsOf(int64_t planned) const;
  void measure(int64_t planned, int64_t ran, plan::Time took);

  const std::unique_ptr<Job> job;
  const plan::Time atom, overhead; // by the plan
  const std::string name;
  const Clock &clock;
  const bool carries;
  std::array<plan::Time, kMeasured> slowest{}; // by piece: duration per atom; 0: none yet
  plan::Time most = 0;                         // the longest of them
  int64_t pieceCount = 0, done = 0;
  int tooLong = 0; // number of pieces in a row, up to the last one, that took too long
  std::string why;
  std::atomic<int> level{1000};
  std::deque<plan::Time> solos; // durations of the last steps without pieces
  std::vector<plan::Time> filled;
  int64_t lastStep = -1;
  plan::Time lastEnd = 0; // end of that step
  mutable std::mutex mutex;
  Paced known;
};

} // namespace pipec::runtime
