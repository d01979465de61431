// Decides how far the processes of a run may go, and when another program takes over; the controller sends what it
// decides. Processes get permits for some steps ahead of the fastest one, so that nobody waits for a permit. A swap to
// another program takes effect at the first step that is not permitted yet, since no process can have begun it. The
// steps from one swap to the next are an epoch.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace pipec::runtime {

/// A permit for all processes: the steps before `until` that no earlier grant covers run `program` under `epoch`.
struct Grant {
  int64_t until = 0;
  int64_t epoch = 0;
  int64_t program = 0; // a variant of the run's plan, or one that was prepared later
  bool last = false;   // the run ends at `until`
  bool operator==(const Grant &) const = default;
};

/// An epoch: the steps from `from` up to the next epoch's run `program`.
struct Epoch {
  int64_t from = 0;
  int64_t epoch = 0;
  int64_t program = 0;
};

class Conductor {
public:
  struct Options {
    int64_t first = 0;
    int64_t end = 1;       // steps are first … end - 1
    int64_t ahead = 4;     // how many steps ahead of the fastest process permits reach; at least 2
    int64_t swapEvery = 0; // the n-th swap waits for step n * swapEvery; 0: swaps do not wait
  };
  explicit Conductor(const Options &options);

  /// To call when some process has completed all steps before `step`.
  void progressed(int64_t step);

  /// To call when all processes have `program` ready: the next swap is to it. One at a time.
  void ready(int64_t program) { next = program; }
  /// Whether a program is ready whose swap has not taken effect.
  bool waiting() const { return next.has_value(); }

  /// Ends the run behind the steps that are already permitted.
  void stop();

  /// The grants that are due now, in order. Each is returned once.
  std::vector<Grant> grants();

  /// Whether all steps are permitted, so that no swap can take effect any more.
  bool over() const { return permitted == options.end; }
  int64_t end() const { return options.end; }
  int64_t reached() const { return fastest; } // how many steps the fastest process has completed
  const std::vector<Epoch> &epochs() const { return history; }
  const Epoch &current() const { return history.back(); }

private:
  int64_t boundary() const; // the step at which the next swap is due, and which permits should not pass without it
  void give(int64_t until, std::vector<Grant> &out);

  Options options;
  int64_t fastest;             // all steps before it are complete on the fastest process
  int64_t permitted;           // all steps before it are permitted
  bool told = false;           // whether a grant has said that it is the last
  std::optional<int64_t> next; // the program that is ready
  std::vector<Epoch> history;
};

} // namespace pipec::runtime
