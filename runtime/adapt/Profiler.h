// Ada-Grouper's tuner that tries candidates (arXiv 2303.01675, section 5): every fifty steps it runs one step of each
// candidate, then the shortest of them.
#pragma once

#include "runtime/adapt/Policy.h"
#include "runtime/plan/Limits.h"

namespace pipec::adapt {

class Profiler {
public:
  static constexpr int64_t kEvery = 50;

  explicit Profiler(size_t candidates) : tried(candidates, limits::kTime) {}

  /// Records the duration of a step, which may become known some steps later.
  void took(int64_t step, Time time) {
    if (const size_t at = size_t(step % kEvery); at < tried.size())
      tried[at] = time;
  }
  /// The candidate that a step is to run.
  size_t next(int64_t step) const {
    const size_t at = size_t(step % kEvery);
    return at < tried.size() ? at : leastOf(tried);
  }

private:
  Times tried; // by candidate, when it was last tried
};

} // namespace pipec::adapt
