// `pipec search --exact`: closes the gap between the words of the search and the proven bound, from both sides. A
// solver decides whether an order of a given time exists (Decide.h): a yes gives a better order, a no a better bound.
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
  plan::LeastTime bound = {}; // lower bound for every plan of all problems; equal to `time`: the words are optimal
  /// Some problem is too large to ask about, or has passes that the solver does not support: overlapped pairs,
  /// backwards that may be whole or split, backward contexts.
  bool tooLarge = false;
  int64_t questions = 0;
};

/// A placement, with two kinds of problems: the times that its orders are judged by, and the times that proofs may use,
/// which are the same or less. If the two differ, an order that the proof allows may take longer in `orders`, and a gap
/// stays open.
struct ExactProblem {
  Problem orders;
  LeastCases proofs; // one or more; each bounds all orders
};

/// A problem with the same times for orders and proofs.
inline ExactProblem byItself(Problem problem) { return {problem, {LeastProblem::proven(problem)}}; }

/// Words of one of the problems that pass verify and fit into its memory limit.
struct KnownOrder {
  size_t problem = 0;
  Words words;
};

struct ExactOptions {
  Objective objective = Objective::Span;
  int64_t milliseconds = 10'000; // includes the search before the first question, which is never interrupted
  std::function<void(const Exact &, Time asking)> said = {}; // called before each question
  std::optional<KnownOrder> start = {};                      // used instead of a search
  std::stop_token stop = {};                                 // on a request to stop, returns the best so far
};

/// The best order over all problems, which differ in their placement; none if none fits. The words leave room for two
/// transfer buffers at each end; the bound holds for one buffer, the fewest possible. The result depends on the
/// machine's speed. Needs check to have passed for each problem, and canDecide().
std::optional<Exact> exact(const std::vector<ExactProblem> &problems, const ExactOptions &options = {});

} // namespace pipec::schedule
