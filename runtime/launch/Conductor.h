// How far the processes of a run may go, and when another program takes over (design, section 6): permits are handed
// out some steps ahead of the fastest process, so that nobody waits for one; a swap takes effect at the first step that
// nobody has a permit for, which therefore nobody can have begun. Decides only: the controller sends.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace pipec::runtime {

/// "The steps before `until` that were not yet permitted run `program` under `epoch`."
struct Grant {
  int64_t until = 0;
  int64_t epoch = 0;
  int64_t program = 0; // a variant of the run's plan, or one that was prepared later
  bool last = false;   // the run ends at `until`
  bool operator==(const Grant &) const = default;
};

/// The steps from `from` on, up to the next epoch's, ran under this.
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
    int64_t ahead = 4;     // of the fastest process, at least 2
    int64_t swapEvery = 0; // the n-th swap waits for step n * swapEvery; 0: it does not wait
  };
  explicit Conductor(const Options &options);

  /// Some process has completed all steps before `step`.
  void progressed(int64_t step);

  /// All processes have `program` ready: the next swap is to it. One at a time.
  void ready(int64_t program) { next = program; }
  bool waiting() const { return next.has_value(); }

  /// From now on no step is permitted that is not yet.
  void stop();

  /// What may be permitted now, in order.
  std::vector<Grant> grants();

  bool over() const { return permitted == options.end; } // all is permitted: no swap can take effect
  int64_t end() const { return options.end; }
  int64_t reached() const { return fastest; }
  const std::vector<Epoch> &epochs() const { return history; }
  const Epoch &current() const { return history.back(); }

private:
  int64_t boundary() const; // the step that permits must not pass without a swap, if possible
  void give(int64_t until, std::vector<Grant> &out);

  Options options;
  int64_t fastest;   // all steps before are complete on the fastest process
  int64_t permitted; // all steps before are
  bool told = false; // which step is the last
  std::optional<int64_t> next;
  std::vector<Epoch> history;
};

} // namespace pipec::runtime
