// Background jobs as the spec asks for them, and which rank runs which job.
#pragma once

#include "runtime/plan/Plan.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace pipec::jobs {

struct Job {
  plan::Job row;
  std::optional<std::vector<int32_t>> ranks; // ascending; absent: all
  std::optional<int64_t> piece;              // atoms per piece; absent: pipec chooses

  /// The time of its shortest piece, overhead included: at most 2 x 10^18 picoseconds.
  plan::Time shortest() const { return piece.value_or(1) * row.atom + row.overhead; }
  bool mayRunOn(int32_t rank) const { return !ranks || std::ranges::binary_search(*ranks, rank); }
};

struct Jobs {
  int64_t slowDown = 0;          // millionths of a step
  bool fillsCollectives = false; // whether pieces may run beside a collective of their rank
  std::vector<Job> work;         // a rank runs the first job that may run on it and fits its memory
};

} // namespace pipec::jobs
