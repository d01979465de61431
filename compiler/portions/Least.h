// The counts of a group that take least time and fit into memory; what has been solved is remembered.
#pragma once

#include "compiler/portions/Choose.h"
#include "compiler/portions/GroupProgram.h"
#include "compiler/portions/Solve.h"

#include <map>

namespace pipec::portions {

struct Least {
  Counts counts;
  Wide lower = 0; // of the program's value
  std::optional<Shortage> shortage;
};

class Solver {
public:
  explicit Solver(int64_t work) : work(work) {}

  /// The least value of a program in any memory: each independent set of splits by itself.
  Least inAnyMemory(const Program &program);
  /// The same in the group's memory. `any` is the answer without it; where it fits, it is the answer.
  Least inMemory(const Group &group, const Program &program, Least any);
  /// Whether the first split of a program that has no other can take no more than this.
  bool canTake(const Program &program, Wide time);

private:
  const Solved &solveOnce(const Program &program);
  /// Counts to start from: equal ones, and those in proportion to what shards can do.
  static std::vector<Counts> beginnings(const Program &program);

  int64_t work;
  std::map<std::vector<int64_t>, Solved> known;
};

/// Within the limits of Time.
Time asTime(Wide time);

} // namespace pipec::portions
