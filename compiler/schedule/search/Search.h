// `schedule: auto`: the best words that a fixed amount of work finds under the memory limit. It tries the catalogue and
// every way of compiler/schedule/construct under many options, where these leave a gap also beams, then improves the
// best of them letter by letter. Work is counted in letters, never in seconds, so the same problem gives the same words
// everywhere.
#pragma once

#include "compiler/schedule/bounds/Bounds.h"
#include "compiler/schedule/improve/LocalSearch.h"

#include <algorithm>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace pipec::schedule {

struct SolveOptions {
  Objective objective = Objective::Span;
  int64_t effort = 100; // hundredths of the usual work
  int32_t buffers = 2;  // transfer buffers at each end of a pair, for which memory is kept free (capacitiesOf)
  Bytes spare = 0;      // of the limit, left free beside them
  std::vector<std::string> without = {}; // ways (Ways.h) that are left out
  /// Asked to stop, a search ends with the best that it has found so far.
  std::stop_token stop = {};

  bool has(std::string_view way) const { return std::find(without.begin(), without.end(), way) == without.end(); }
};

struct Solution {
  Words words;
  Time time = 0;                   // of the objective
  Time bound = 0;                  // proven: no words take less. Equal to `time`: the words are optimal
  std::string source;              // what made them, for people
  int64_t tried = 0;               // candidates
  int64_t letters = 0;             // walked in all
  std::set<std::string> ways = {}; // (Ways.h) that made or improved the words that went on to the end
};

/// The lower bound of the objective's time.
Time boundOf(const Problem &problem, Objective objective);

/// Adds `found`, which has words and a time, to the at most `most` shortest, unless these words are there already. The
/// shortest come first; of equal times, what was found first.
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
/// fits, or before the search was asked to stop. Needs check(problem) to have passed.
std::optional<Solution> solve(const Problem &problem, const SolveOptions &options = {});

} // namespace pipec::schedule
