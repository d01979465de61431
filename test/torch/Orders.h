// All orders of small problems, written down one by one: what searches and bounds are held to.
#pragma once

#include "compiler/schedule/evaluate/Evaluate.h"
#include "compiler/schedule/search/Search.h"
#include "test/schedule/Support.h"

namespace pipec::schedule::test {

/// Every word of a rank that its data, seen from it alone, and its capacity allow.
class RankWords {
public:
  RankWords(const Problem &problem, int32_t rank, Bytes capacity, size_t most)
      : problem(problem), capacity(capacity), most(most), done(problem.stages.size(), {0, 0, 0}) {
    for (size_t s = 0; s < problem.stages.size(); ++s)
      if (problem.rankOf[s] == rank)
        mine.push_back(int32_t(s));
    extend(0);
  }
  std::vector<Word> words;

private:
  const Problem &problem;
  const Bytes capacity;
  const size_t most; // one more says that there are too many
  std::vector<int32_t> mine;
  std::vector<std::array<int32_t, 3>> done;
  Word word;

  void extend(Bytes live) {
    if (words.size() > most)
      return;
    const bool fused = problem.backward == BackwardMode::Fused;
    if (word.size() == mine.size() * size_t(problem.microbatches) * (fused ? 2 : 3)) {
      words.push_back(word);
      return;
    }
    for (const int32_t s : mine)
      for (int kind = 0; kind < (fused ? 2 : 3); ++kind) {
        std::array<int32_t, 3> &own = done[size_t(s)];
        if (own[size_t(kind)] == (kind == 0 ? problem.microbatches : own[size_t(kind) - 1]))
          continue;
        const Letter letter = kind == 1 && fused ? Letter::BW : static_cast<Letter>(kind);
        const Bytes change = Bytes(changeOf(problem.stages[size_t(s)], letter));
        if (live + change > capacity)
          continue;
        ++own[size_t(kind)];
        word.push_back({s, letter});
        extend(live + change);
        word.pop_back();
        --own[size_t(kind)];
      }
  }
};

/// The least time over all orders; none where none fits, or there are too many to look at.
inline std::optional<Time> leastOf(const Problem &problem, Objective objective, size_t most, bool *tooMany = nullptr) {
  const Capacities capacities = capacitiesOf(problem, 1);
  std::vector<std::vector<Word>> choices;
  size_t all = 1;
  for (int32_t r = 0; r < problem.ranks; ++r) {
    choices.push_back(RankWords(problem, r, capacities.empty() ? 1 << 30 : capacities[size_t(r)], most).words);
    all *= choices.back().size();
    if (all > most) {
      if (tooMany)
        *tooMany = true;
      return std::nullopt;
    }
  }
  std::optional<Time> least;
  for (size_t n = 0; n < all; ++n) {
    Words words;
    for (size_t r = 0, rest = n; r < choices.size(); rest /= choices[r++].size())
      words.push_back(choices[r][rest % choices[r].size()]);
    const Evaluation evaluation = evaluate(problem, words);
    if (!evaluation.complete)
      continue;
    const Time time = objective == Objective::Span ? evaluation.span : evaluation.makespan;
    least = std::min(least.value_or(time), time);
  }
  return least;
}

} // namespace pipec::schedule::test
