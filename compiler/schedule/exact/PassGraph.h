// The passes of a problem as a graph of least distances between their starts, for an exact search. A *line* is all
// passes of one stage and kind, which run in the order of microbatches. Times are multiples of a unit that divides all
// lengths.
#pragma once

#include "compiler/schedule/model/Capacity.h"
#include "compiler/schedule/model/Objective.h"

#include <vector>

namespace pipec::schedule {

class Passes {
public:
  struct Arc {
    int32_t from, to;
    Time length; // in units, like all times here
  };

  /// The graph of all orders that take at most `target` picoseconds by the objective.
  Passes(const Problem &problem, Objective objective, Time target);

  int32_t ranks() const { return problem.ranks; }
  int32_t microbatches() const { return problem.microbatches; }
  int32_t lines() const { return int32_t(problem.stages.size()) * kinds; }
  /// The number of nodes: the passes, then one node for the start of all passes, and one for the all-reduce of a
  /// gradient norm.
  int32_t count() const { return lines() * microbatches() + 2; }
  int32_t pass(int32_t line, int32_t microbatch) const { return line * microbatches() + microbatch; }
  Letter letterOf(int32_t line) const;
  int32_t rankOf(int32_t line) const { return problem.rankOf[size_t(line / kinds)]; }
  const std::vector<int32_t> &linesOf(int32_t rank) const { return rankLines[size_t(rank)]; }
  Time length(int32_t pass) const { return lengths[size_t(pass / microbatches())]; }
  __int128 change(int32_t line) const { return changeOf(problem.stages[size_t(line / kinds)], letterOf(line)); }

  const std::vector<Arc> &arcs() const { return network; }
  /// The node that a pass's window is counted from: the start of all passes or, for the span, the first pass of its
  /// rank.
  int32_t anchorOf(int32_t pass) const { return anchors[size_t(pass)]; }
  Time earliest(int32_t pass) const { return least[size_t(pass)]; }
  Time latest(int32_t pass) const { return most[size_t(pass)]; }
  /// No pass of a rank starts before firstOf, and none ends after lastOf.
  Time firstOf(int32_t rank) const { return firsts[size_t(rank)]; }
  Time lastOf(int32_t rank) const { return lasts[size_t(rank)]; }
  /// Whether x must run before y on their common rank, by data, by windows (earliest to latest) or by the order of
  /// microbatches.
  bool mustPrecede(int32_t x, int32_t y) const;
  /// False if some window is empty.
  bool isPossible() const { return possible; }

  /// The words that correspond to start times.
  Words words(const std::vector<int64_t> &starts) const;

private:
  const Problem &problem;
  const int32_t kinds; // letters of a stage: F, B, W or F, BW
  Time unit = 1;
  std::vector<Time> lengths; // by line
  std::vector<std::vector<int32_t>> rankLines;
  std::vector<Arc> network;
  std::vector<int32_t> anchors;
  std::vector<Time> least, most, firsts, lasts;
  bool possible = true;

  void connect();
  void setUnit(Time divides);
  void setWindows(Objective objective, Time target);
  std::vector<Time> distancesFrom(int32_t pass) const;
};

} // namespace pipec::schedule
