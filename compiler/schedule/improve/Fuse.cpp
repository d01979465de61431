#include "compiler/schedule/improve/Fuse.h"

#include "compiler/schedule/evaluate/Evaluate.h"

#include <algorithm>
#include <utility>

namespace pipec::schedule {

namespace {

/// A B with a W of its stage right behind it. In the word that may be the W of an older microbatch. But it may as well
/// be its own: the older W then stands where this one would have stood, and the rank holds as much.
struct Pair {
  size_t rank = 0, place = 0; // of the B in the rank's word
  int32_t stage = 0;
  int32_t number = 0; // of the stage's backwards
};

std::vector<Pair> pairsOf(const Words &words, size_t stages) {
  std::vector<Pair> pairs;
  std::vector<int32_t> backwards(stages);
  for (size_t rank = 0; rank != words.size(); ++rank)
    for (size_t i = 0; i != words[rank].size(); ++i) {
      const Op &op = words[rank][i];
      if (op.letter != Letter::B && op.letter != Letter::BW)
        continue;
      const int32_t number = backwards[size_t(op.stage)]++;
      if (op.letter == Letter::B && i + 1 != words[rank].size() && words[rank][i + 1] == Op{op.stage, Letter::W, false})
        pairs.push_back({rank, i, op.stage, number});
    }
  return pairs;
}

class Fusing {
public:
  Fusing(const Problem &problem, const Words &words, Objective objective)
      : problem(problem), words(words), objective(objective), pairs(pairsOf(words, problem.stages.size())) {
    int64_t letters = 0;
    for (const Word &word : words)
      letters += int64_t(word.size());
    left = std::max<int64_t>(kLetters / std::max<int64_t>(letters, 1), kFewest);
  }

  Words run() {
    best.assign(pairs.size(), false);
    least = timeOf(best);
    if (pairs.empty())
      return words;
    attempt(Chosen(pairs.size(), true));
    fuseByLeisure();
    // Stage by stage, then each by itself.
    for (int32_t s = 0; s != int32_t(problem.stages.size()); ++s)
      for (const bool fused : {true, false})
        change([&](const Pair &each) { return each.stage == s; }, fused);
    for (size_t i = 0; i != pairs.size() && left > 0; ++i) {
      Chosen other = best;
      other[i] = !other[i];
      attempt(std::move(other));
    }
    return wordsOf(best);
  }

private:
  using Chosen = std::vector<bool>; // by pair: whether it is fused
  static constexpr int64_t kLetters = int64_t(1) << 23, kFewest = 12;

  Words wordsOf(const Chosen &chosen) const {
    Words made(words.size());
    size_t next = 0;
    for (size_t rank = 0; rank != words.size(); ++rank)
      for (size_t i = 0; i != words[rank].size(); ++i) {
        made[rank].push_back(words[rank][i]);
        if (next == pairs.size() || pairs[next].rank != rank || pairs[next].place != i)
          continue;
        if (chosen[next++]) {
          made[rank].back().letter = Letter::BW;
          ++i;
        }
      }
    return made;
  }

  /// Of the objective, then of the other.
  std::pair<Time, Time> timeOf(const Chosen &chosen) {
    --left;
    const Evaluation found = evaluate(problem, wordsOf(chosen));
    return objective == Objective::Span ? std::pair(found.span, found.makespan) : std::pair(found.makespan, found.span);
  }

  /// Takes a choice that is no worse, or that is as good and fuses more.
  bool attempt(Chosen other) {
    if (left <= 0 || other == best)
      return false;
    const auto time = timeOf(other);
    const auto count = [](const Chosen &chosen) { return std::count(chosen.begin(), chosen.end(), true); };
    if (time > least || (time == least && count(other) < count(best)))
      return false;
    least = time;
    best = std::move(other);
    return true;
  }

  template <typename Which> void change(Which which, bool fused) {
    Chosen other = best;
    for (size_t i = 0; i != pairs.size(); ++i)
      if (which(pairs[i]))
        other[i] = fused;
    attempt(std::move(other));
  }

  /// Fuses those for whose gradient nobody waits as long as it would take longer; what that moves lets others be fused.
  void fuseByLeisure() {
    constexpr int kRounds = 4;
    Chosen chosen(pairs.size(), false);
    for (int round = 0; round != kRounds && left > 0; ++round) {
      const Words now = wordsOf(chosen);
      const Evaluation found = evaluate(problem, now, {.withSpan = false, .withStarts = true});
      --left;
      std::vector<std::vector<Time>> starts(problem.stages.size()); // of each backward
      for (size_t rank = 0; rank != now.size(); ++rank)
        for (size_t i = 0; i != now[rank].size(); ++i)
          if (const Op &op = now[rank][i]; op.letter == Letter::B || op.letter == Letter::BW)
            starts[size_t(op.stage)].push_back(found.starts[rank][i]);
      Chosen more = chosen;
      for (size_t i = 0; i != pairs.size(); ++i) {
        const Pair &pair = pairs[i];
        const Stage &stage = problem.stages[size_t(pair.stage)];
        const int32_t before = problem.before(pair.stage);
        const auto number = size_t(pair.number);
        if (!more[i])
          more[i] = before < 0 ||
                    starts[size_t(pair.stage)][number] + stage.backward + problem.handOver(pair.stage, before) <=
                        starts[size_t(before)][number];
      }
      if (more == chosen)
        return;
      chosen = std::move(more);
      attempt(chosen);
    }
  }

  const Problem &problem;
  const Words &words;
  const Objective objective;
  const std::vector<Pair> pairs;
  int64_t left = 0; // evaluations
  Chosen best;
  std::pair<Time, Time> least;
};

} // namespace

Words fuseBackwards(const Problem &problem, const Words &words, Objective objective) {
  return Fusing(problem, words, objective).run();
}

} // namespace pipec::schedule
