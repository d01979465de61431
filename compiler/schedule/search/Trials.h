// What a search makes of a problem's candidates: words that fit, verified and timed, of all microbatches or of fewer.
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
  bool deferred = false; // its W have been put off
};

inline Trial &leastOf(std::vector<Trial> &trials) {
  return *std::min_element(trials.begin(), trials.end(),
                           [](const Trial &a, const Trial &b) { return a.time < b.time; });
}

int64_t lettersOf(const Problem &problem);

/// With fewer evaluations than this, annealing is not worth while.
constexpr int64_t kLeastAnnealing = 600;

class Trials {
public:
  /// With `needsBuffers`, only words for whose buffers the limit leaves room.
  Trials(const Problem &problem, const Capacities &capacities, const SolveOptions &options, bool needsBuffers);

  const Problem &problem;
  const SolveOptions &options;
  const int64_t letters; // of the problem
  const Time bound;
  std::vector<Candidate> candidates;
  int64_t count = 0, walked = 0; // words made, and letters walked for it

  /// A candidate's words for `given`, the problem with as many microbatches or fewer.
  std::optional<Trial> tryOn(const Problem &given, size_t candidate, int tries = 6);
  /// Words of the problem, made as a candidate's.
  std::optional<Trial> tryWords(size_t candidate, Words words);
  /// Anneals the first of `best`, which share `work` letters.
  void improve(std::vector<Trial> &best, int64_t work);
  /// Anneals words for fewer microbatches; false where the buffers that these need afterwards do not fit.
  bool improve(const Problem &few, Trial &trial, int64_t evaluations, uint64_t seed);

private:
  const Capacities &capacities;
  const bool needsBuffers;
  std::set<std::pair<int32_t, uint64_t>> seen; // by microbatches, hashes of words
  std::map<int32_t, Time> shortestOf;          // of trials with so many microbatches
  std::map<size_t, Capacities> lowered;        // by candidate: less capacity, where its words need many buffers

  const Capacities &capacitiesOf(size_t candidate) const;
  /// Moves letters into gaps, if that is not left out.
  void fill(const Problem &given, const Capacities &capacity, Words &words, int64_t passes);
  Trial withLaterWeights(const Problem &given, const Capacities &capacity, Trial trial);
  Capacities lessBy(__int128 excess, const Capacities &than) const;
};

} // namespace pipec::schedule
