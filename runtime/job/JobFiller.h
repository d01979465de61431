// A process's job as what fills the waits of its device. What the plan says of an atom is not taken on trust: a piece
// has as many as the slowest of late let it have in its planned length, at least one. A job rests for good once an atom
// has taken longer than that in three pieces in a row, and where it fails.
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
  /// `clock` outlives it. Where time is emulated, so is that of a job which says what it takes (Job::emulated).
  JobFiller(std::unique_ptr<Job> job, const plan::Job &planned, const Clock &clock, Pace pace);

  bool opens(plan::Time window, const std::vector<plan::Time> &windows) const override;
  void stepped(int64_t step, plan::Time end) override;
  plan::Time next(int64_t atoms) const override;
  plan::Time run(int64_t atoms, plan::Time begin) override;

  // Any thread.

  /// How many windows of a step may be filled, in thousandths, the longest first.
  void setLevel(int thousandths) { level = thousandths; }
  /// What a step takes in the median: the last 8 without pieces, and those with them since the last of these. `rounds`:
  /// how often that has been known.
  struct Paced {
    plan::Time solo = 0, filled = 0;
    int64_t rounds = 0;
  };
  Paced paces() const;

  // While no piece runs.

  /// Whether it has a state to be saved: Job::saves(), and it has not ended.
  bool saves() const { return job->saves() && why.empty(); }
  Status save(const std::string &path) { return job->save(path, done); }
  /// Before the first piece.
  Status load(const std::string &path, int64_t atoms);
  /// No piece runs any more.
  void end(std::string reason) { why = std::move(reason); }
  int64_t pieces() const { return pieceCount; }
  int64_t atoms() const { return done; } // ever, those before a load included
  /// Why the job has ended, or rests; empty: it goes on.
  const std::string &ended() const { return why; }

private:
  static constexpr size_t kMeasured = 64; // pieces that are remembered
  static constexpr int kPatience = 3;     // pieces whose atoms take too long

  int64_t atomsOf(int64_t planned) const;
  void measure(int64_t planned, int64_t ran, plan::Time took);

  const std::unique_ptr<Job> job;
  const plan::Time atom, overhead; // by the plan
  const std::string name;
  const Clock &clock;
  const bool carries;
  std::array<plan::Time, kMeasured> slowest{}; // an atom of each piece, by piece; 0: not yet
  plan::Time most = 0;                         // of them
  int64_t pieceCount = 0, done = 0;
  int tooLong = 0; // the last so many pieces
  std::string why;
  std::atomic<int> level{1000};
  std::deque<plan::Time> solos; // the last steps without pieces
  std::vector<plan::Time> filled;
  int64_t lastStep = -1;
  plan::Time lastEnd = 0; // of that step
  mutable std::mutex mutex;
  Paced known;
};

} // namespace pipec::runtime
