// `schedule: auto`: the best words that a fixed amount of work finds under the memory limit. It tries the catalogue,
// list scheduling under many policies, and building blocks in real time, where these leave a gap beams over the states
// of all ranks, then improves the best of them letter by letter. Work is counted in letters, never in seconds, so the
// same problem gives the same words everywhere.
#pragma once

#include "compiler/schedule/bounds/Bounds.h"
#include "compiler/schedule/improve/LocalSearch.h"

#include <algorithm>
#include <optional>
#include <string>

namespace pipec::schedule {

struct SolveOptions {
  Objective objective = Objective::Span;
  int64_t effort = 100; // hundredths of the usual work
  int32_t buffers = 2;  // kept free of each ring of transfer buffers, as capacitiesOf says
  Bytes spare = 0;      // of the limit, left free beside them
};

struct Solution {
  Words words;
  Time time = 0;       // of the objective
  Time bound = 0;      // none is less: equal to `time`, the words are optimal
  std::string source;  // what made them, for people
  int64_t tried = 0;   // candidates
  int64_t letters = 0; // walked in all
};

/// What no time of the objective is less than.
Time boundOf(const Problem &problem, Objective objective);

/// Keeps so many of what has words and a time, the shortest first, each once; of the same time what came first.
template <typename Found> void keepShortest(std::vector<Found> &best, Found found, size_t most) {
  if (std::any_of(best.begin(), best.end(),
                  [&](const Found &other) { return other.time == found.time && other.words == found.words; }))
    return;
  const auto place = std::upper_bound(best.begin(), best.end(), found.time,
                                      [](Time time, const Found &other) { return time < other.time; });
  best.insert(place, std::move(found));
  if (best.size() > most)
    best.pop_back();
}

/// Words of passes that never run together (overlap/Pairing.h has those that do). None where nothing was found that
/// fits. Needs check(problem) to have passed.
std::optional<Solution> solve(const Problem &problem, const SolveOptions &options = {});

} // namespace pipec::schedule
