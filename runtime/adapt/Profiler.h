// Ada-Grouper's tuner that tries (arXiv 2303.01675, section 5): every fifty steps one of each candidate, then the
// shortest of them.
#pragma once

#include "runtime/adapt/Policy.h"
#include "runtime/plan/Limits.h"

namespace pipec::adapt {

class Profiler {
public:
  static constexpr int64_t kEvery = 50;

  explicit Profiler(size_t candidates) : tried(candidates, limits::kTime) {}

  /// A step took so long. It may be known only some steps later.
  void took(int64_t step, Time time) {
    if (const size_t at = size_t(step % kEvery); at < tried.size())
      tried[at] = time;
  }
  /// What a step is to run.
  size_t next(int64_t step) const {
    const size_t at = size_t(step % kEvery);
    return at < tried.size() ? at : leastOf(tried);
  }

private:
  Times tried; // by candidate, when it was last tried
};

} // namespace pipec::adapt
