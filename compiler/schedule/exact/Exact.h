// `pipec search --exact`: closes the gap between what the search finds and what is proven, from both sides. Whether an
// order of a given time exists is asked of a solver (Decide.h); a yes is a better order, a no a better bound.
#pragma once

#include "compiler/schedule/exact/Decide.h"
#include "compiler/schedule/model/LeastProblem.h"
#include "runtime/plan/LeastTime.h"

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace pipec::schedule {

struct Exact {
  size_t problem = 0; // index of the problem that the words are for
  Words words;
  Time time = 0;
  plan::LeastTime bound = {}; // no plan of any of the problems takes less; reached by `time`: optimal
  bool tooLarge = false;      // some problem is larger than what is asked about, or has passes that the solver does not
                              // know: overlapped pairs, backwards that may be whole or split, backward contexts
  int64_t questions = 0;
};

/// A placement: the times that its orders are made of, and what proofs may count, the same or less. Where the two
/// differ, an order that the proof's times allow may take longer, and a gap is left.
struct ExactProblem {
  Problem orders;
  LeastCases proofs; // one or more; each of them bounds all orders
};

/// The question about a problem by itself: its orders take what proofs count.
inline ExactProblem byItself(Problem problem) { return {problem, {LeastProblem::proven(problem)}}; }

/// Words of one of the problems that verify accepts and that run within its limit.
struct KnownOrder {
  size_t problem = 0;
  Words words;
};

struct ExactOptions {
  Objective objective = Objective::Span;
  int64_t milliseconds = 10'000; // includes the search before the first question, which is never cut short
  std::function<void(const Exact &, Time asking)> said = {}; // called before each question
  std::optional<KnownOrder> start = {};                      // in place of a search
  std::stop_token stop = {};                                 // asked to stop, it ends with what it has
};

/// The best order over all problems, which differ in their placement; none where none fits. The words found leave room
/// for two transfer buffers at each end; the bound holds for one, the fewest there can be. How far it gets depends on
/// the machine. Needs check to have passed for each, and canDecide().
std::optional<Exact> exact(const std::vector<ExactProblem> &problems, const ExactOptions &options = {});

} // namespace pipec::schedule
