// Words that a search makes from a problem's candidates: they fit, are verified and timed, and have all microbatches or
// fewer.
#pragma once

#include "compiler/schedule/search/Candidates.h"
#include "compiler/schedule/search/Search.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace pipec::schedule {

struct Trial {
  size_t candidate = 0;
  Words words;
  Time time = 0;
  bool deferred = false; // its W were deferred
};

inline Trial &leastOf(std::vector<Trial> &trials) {
  return *std::min_element(trials.begin(), trials.end(),
                           [](const Trial &a, const Trial &b) { return a.time < b.time; });
}

int64_t lettersOf(const Problem &problem);

/// With fewer evaluations than this, annealing does not pay.
constexpr int64_t kLeastAnnealing = 600;

class Trials {
public:
  /// With `needsBuffers`, only words count for which the limit leaves room for their buffers.
  Trials(const Problem &problem, const Capacities &capacities, const SolveOptions &options, bool needsBuffers);

  const Problem &problem;
  const SolveOptions &options;
  const int64_t letters; // of the problem
  const Time bound;
  std::vector<Candidate> candidates;
  int64_t count = 0, walked = 0; // words made so far, and letters walked for them

  /// A candidate's words for `given`: the problem, or the problem with fewer microbatches.
  std::optional<Trial> tryOn(const Problem &given, size_t candidate, int tries = 6);
  /// A trial from finished words of the problem, counted as a candidate's.
  std::optional<Trial> tryWords(size_t candidate, Words words);
  /// Anneals the first words of `best`; together they may use `work` letters.
  void improve(std::vector<Trial> &best, int64_t work);
  /// Anneals words for fewer microbatches; false if the buffers that the result needs do not fit.
  bool improve(const Problem &few, Trial &trial, int64_t evaluations, uint64_t seed);

private:
  const Capacities &capacities;
  const bool needsBuffers;
  std::set<std::pair<int32_t, uint64_t>> seen; // (microbatches, hash of words)
  std::map<int32_t, Time> shortestOf;          // by number of microbatches: the shortest time of a trial
  std::map<size_t, Capacities> lowered;        // by candidate: reduced capacities, if its words need many buffers

  const Capacities &capacitiesOf(size_t candidate) const;
  /// Moves letters into gaps, unless that way is left out.
  void fill(const Problem &given, const Capacities &capacity, Words &words, int64_t passes);
  Trial withLaterWeights(const Problem &given, const Capacities &capacity, Trial trial);
  Capacities lessBy(__int128 excess, const Capacities &than) const;
};

} // namespace pipec::schedule
