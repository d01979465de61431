// `schedule: auto`: the best words that a fixed amount of work finds under the memory limit. The search tries the
// catalogue and every method of compiler/schedule/construct with many options. If a gap to the bound is left, it also
// tries beam searches. Then it improves the best words letter by letter. Work is counted in letters, never in seconds,
// so the same problem gives the same words on every machine.
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
  int32_t buffers = 2;  // transfer buffers at each end of a pair that memory is reserved for (capacitiesOf)
  Bytes spare = 0;      // more bytes of the limit to leave free
  std::vector<std::string> without = {}; // names of ways (Ways.h) to leave out
  /// On a request to stop, the search ends with the best words so far.
  std::stop_token stop = {};

  bool has(std::string_view way) const { return std::find(without.begin(), without.end(), way) == without.end(); }
};

struct Solution {
  Words words;
  Time time = 0;                   // of the objective
  Time bound = 0;                  // proven lower bound; equal to `time`: the words are optimal
  std::string source;              // how the words were made, for people
  int64_t tried = 0;               // candidates
  int64_t letters = 0;             // letters walked in total
  std::set<std::string> ways = {}; // names of the ways (Ways.h) that made or improved the words kept to the end
};

/// The lower bound of the objective's time (bounds/Bounds.h).
Time boundOf(const Problem &problem, Objective objective);

/// Adds `found` to `best`, which keeps the `most` shortest, unless the same words are there already. The shortest come
/// first; of equal times, the words found first.
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

/// Words without overlapped pairs (overlap/Pairing.h has pairs). None if no words that fit were found, or none before a
/// request to stop. Needs check(problem) to have passed.
std::optional<Solution> solve(const Problem &problem, const SolveOptions &options = {});

} // namespace pipec::schedule
