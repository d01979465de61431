// The time of words that change in place.
#pragma once

#include "compiler/schedule/evaluate/Span.h"
#include "compiler/schedule/evaluate/WordWalk.h"
#include "compiler/schedule/model/Objective.h"
#include "compiler/schedule/model/Problem.h"

#include <limits>

namespace pipec::schedule {

constexpr Time kNever = std::numeric_limits<Time>::max();

/// Times words that change in place between calls.
class Timer {
public:
  Timer(const Problem &problem, const Words &words, Objective objective)
      : ranks(problem.ranks), objective(objective), release(size_t(problem.ranks), 0),
        walk(problem, words, objective == Objective::Span) {}

  /// The objective's time of the words as they are now; kNever: they deadlock, or take longer than limits::kTime.
  Time time() {
    if (walk.run(release) != Walk::Outcome::Done)
      return kNever;
    if (objective == Objective::Makespan) {
      Time latest = 0;
      for (int32_t r = 0; r < ranks; ++r)
        latest = std::max(latest, walk.end(r));
      return latest;
    }
    return largestCycleMean(step(), [&](const std::vector<Time> &starts, Step &result) {
      walk.run(starts);
      result = step();
    });
  }

  /// The start of each letter in a step in which all ranks begin at 0. Requires that time() is not kNever.
  const std::vector<std::vector<Time>> &starts(const Words &words) {
    begun.resize(words.size());
    for (size_t r = 0; r < words.size(); ++r)
      begun[r].resize(words[r].size());
    walk.run(release, &begun);
    return begun;
  }

private:
  int32_t ranks;
  Objective objective;
  std::vector<Time> release;
  Walk walk;
  std::vector<std::vector<Time>> begun;

  Step step() const {
    Step step;
    for (int32_t r = 0; r < ranks; ++r) {
      step.ends.push_back(walk.end(r));
      step.origins.push_back(walk.origin(r));
    }
    return step;
  }
};

} // namespace pipec::schedule
