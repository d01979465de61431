// What few microbatches tell of many: what a microbatch more costs carries over, and so does what makes it cost less.
#pragma once

#include "compiler/schedule/improve/Grow.h"
#include "compiler/schedule/search/Trials.h"

namespace pipec::schedule {

/// What a candidate would take for all microbatches, told from fewer of them.
struct Guess {
  double time = 0;
  Trial few;
  Period period; // that would go on

  bool operator<(const Guess &other) const {
    return time != other.time ? time < other.time : few.candidate < other.few.candidate;
  }
};

class Few {
public:
  explicit Few(Trials &trials) : trials(trials), problem(trials.problem), few(problem) {
    few.microbatches = 2 * problem.ranks;
  }

  bool isFewer() const { return few.microbatches < problem.microbatches; }
  /// Of 2p microbatches: what they do again and again would go on; where there is no such thing, what they take more
  /// than p.
  std::optional<Guess> guess(size_t candidate);
  /// What it does goes on for all of them.
  std::optional<Trial> grow(const Guess &guess);
  /// Whether it may become the shortest.
  static bool isWorthwhile(const Guess &guess, Time shortest) {
    constexpr double kWorth = 1.02;
    return guess.time <= kWorth * double(shortest);
  }
  /// What the likeliest do with few microbatches is improved, with so many letters of annealing, half of them on all,
  /// half on the best: what then goes on is better for every microbatch more. It is improved once more with all of
  /// them, with so many letters, and added to `best`.
  void growImproved(std::vector<Guess> &&guesses, std::vector<Trial> &best, size_t most, int64_t lettersOfFew,
                    int64_t lettersOfAll);

private:
  Trials &trials;
  const Problem &problem;
  Problem few;

  double timeOfAll(const Period &period) const { return period.timeWith(problem.microbatches - few.microbatches); }
  void improve(const Guess &guess, int64_t evaluations, std::vector<Guess> &longer);
};

} // namespace pipec::schedule
