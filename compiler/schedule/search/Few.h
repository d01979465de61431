// Judges and improves candidates on few microbatches instead of all. If all ranks repeat a period (Grow.h), words for
// few microbatches give words for all: each further microbatch adds as much time as one of the period. So a shorter
// period shortens the words for all.
#pragma once

#include "compiler/schedule/improve/Grow.h"
#include "compiler/schedule/search/Trials.h"

namespace pipec::schedule {

/// The expected time of a candidate for all microbatches, from its words for few.
struct Guess {
  double time = 0;
  Trial few;
  Period period; // the period of these words, to be repeated

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
  /// Makes the candidate's words for 2p microbatches and estimates the time for all by repeating the period. Without a
  /// period, each further microbatch counts as much as each one from p to 2p. None if there are no such words.
  std::optional<Guess> guess(size_t candidate);
  /// The words for all microbatches, with the guess's period repeated. None if they do not fit.
  std::optional<Trial> grow(const Guess &guess);
  /// Whether the guess is good enough to make its words for all microbatches: at most 2 % above the shortest so far.
  static bool isWorthwhile(const Guess &guess, Time shortest) {
    constexpr double kWorth = 1.02;
    return guess.time <= kWorth * double(shortest);
  }
  /// Anneals the words for few microbatches of the best guesses, at most `most`, and repeats the resulting periods: a
  /// gain in a period is gained with every repetition. Half of `lettersOfFew` is spent on all these guesses, half on
  /// the best. The shortest words for all microbatches are annealed again, with `lettersOfAll`, and added to `best`.
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
