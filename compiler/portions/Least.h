// Finds the counts of units with which a group takes the least time and fits into memory, and remembers solved
// programs.
#pragma once

#include "compiler/portions/Choose.h"
#include "compiler/portions/GroupProgram.h"
#include "compiler/portions/Solve.h"

#include <map>

namespace pipec::portions {

struct Least {
  Counts counts;
  Wide lower = 0; // lower bound of the program's value
  std::optional<Shortage> shortage;
};

class Solver {
public:
  explicit Solver(int64_t work) : work(work) {}

  /// The least value of a program without a memory limit. Each independent set of splits is solved by itself.
  Least inAnyMemory(const Program &program);
  /// The least value within the group's memory limit. `any` is the answer without a limit, and is returned if it fits.
  Least inMemory(const Group &group, const Program &program, Least any);
  /// Whether a program with one split has counts with a value of at most `time`.
  bool canTake(const Program &program, Wide time);

private:
  const Solved &solveOnce(const Program &program);
  /// Counts to start from: equal counts, and counts in proportion to the speeds of the shards.
  static std::vector<Counts> beginnings(const Program &program);

  int64_t work;
  std::map<std::vector<int64_t>, Solved> known;
};

/// `time`, cut to the range 0 to kMostTime.
Time asTime(Wide time);

} // namespace pipec::portions
