// The conductor decides how far the processes of a run may go, and when another program takes over. The controller
// sends the decisions. A step is permitted once some process needs the permit soon. If steps are so short that a permit
// for each would come too late, one permit covers several. A swap to another program takes effect at the first step
// that is not permitted yet, since no process can have begun that step. An epoch is the steps from one swap to the
// next.
#pragma once

#include <algorithm>
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
    int64_t ahead = 1;     // steps that a permit covers, from the step that is needed on; at least 1
    int64_t swapEvery = 0; // the n-th swap waits for step n * swapEvery; 0: swaps do not wait
    bool asks = false;     // whether even the first step is permitted only once some process needs it
  };
  explicit Conductor(const Options &options);

  /// How many steps a permit covers from now on.
  void cover(int64_t ahead) { options.ahead = std::max<int64_t>(ahead, 1); }

  /// To call when some process needs the permit of `step` soon.
  void needed(int64_t step);
  /// Whether needed(step) would lead to a grant. A swap must be ready before that to take effect there.
  bool wouldGrant(int64_t step) const { return permitted < std::min(options.end, step + options.ahead); }
  /// The first step that is not permitted.
  int64_t open() const { return permitted; }

  /// To call when all processes have `program` ready: the next swap is to it. One at a time. Permits cover `ahead`
  /// steps under it.
  void ready(int64_t program, int64_t ahead) { next = {program, ahead}; }
  /// Cancels that swap.
  void withdraw() { next.reset(); }
  /// Whether a program is ready and its swap has not taken effect yet.
  bool waiting() const { return next.has_value(); }

  /// Ends the run after the steps that are already permitted.
  void stop();

  /// The grants that are due now, in order. Each is returned once.
  std::vector<Grant> grants();

  /// Whether all steps are permitted, so that no swap can take effect any more.
  bool over() const { return permitted == options.end; }
  int64_t end() const { return options.end; }
  const std::vector<Epoch> &epochs() const { return history; }
  const Epoch &current() const { return history.back(); }

private:
  struct Next {
    int64_t program = 0;
    int64_t ahead = 1;
  };
  int64_t boundary() const; // the step of the next swap; permits end there until its program is ready
  void give(int64_t until, std::vector<Grant> &out);

  Options options;
  int64_t need;             // the last step that some process has asked for
  int64_t permitted;        // all steps before it are permitted
  bool told = false;        // whether a grant with `last` was given
  std::optional<Next> next; // the program that is ready
  std::vector<Epoch> history;
};

} // namespace pipec::runtime
