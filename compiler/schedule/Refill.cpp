// Refilling a repeated block. At both ends of a step a block's slots stand half empty, since the microbatches before
// the first and after the last are not there; what comes later takes their place. A W in the way is first put off to
// where memory needs it, and comes back to where a rank waits; whether that pays is tried.
#include "compiler/schedule/Block.h"
#include "compiler/schedule/Evaluate.h"
#include "compiler/schedule/LocalSearch.h"

#include <algorithm>
#include <optional>

namespace pipec::schedule {

namespace {

/// W that follow a rank's last F, all at its end.
void deferLast(Words &words) {
  for (Word &word : words) {
    const auto last = std::find_if(word.rbegin(), word.rend(), [](const Op &op) { return op.letter == Letter::F; });
    Word weights;
    const auto rest = std::remove_if(last.base(), word.end(), [&](const Op &op) {
      if (op.letter == Letter::W)
        weights.push_back(op);
      return op.letter == Letter::W;
    });
    std::copy(weights.begin(), weights.end(), rest);
  }
}

/// Words of `problem`, from words of the same with fewer microbatches: in the middle of each rank's, where it runs
/// every letter once and then the same again, it does so more often. None where some rank never does, or the ranks'
/// middles do not belong together.
std::optional<Words> stretch(const Problem &problem, const Words &words, int32_t microbatches) {
  Words result;
  for (const Word &word : words) {
    const size_t period = word.size() / size_t(microbatches), middle = word.size() / 2;
    const auto isSteady = [&](size_t at) {
      if (at + 2 * period > word.size() ||
          !std::equal(word.begin() + at, word.begin() + at + period, word.begin() + at + period))
        return false;
      for (size_t i = at; i < at + period; ++i)
        if (std::find(word.begin() + i + 1, word.begin() + at + period, word[i]) != word.begin() + at + period)
          return false;
      return true;
    };
    size_t at = middle;
    for (size_t distance = 0; !isSteady(at = middle + distance); ++distance)
      if (distance == period)
        return std::nullopt;
    Word &longer = result.emplace_back(word.begin(), word.begin() + at);
    longer.reserve(period * size_t(problem.microbatches));
    for (int32_t more = microbatches; more < problem.microbatches; ++more)
      longer.insert(longer.end(), word.begin() + at, word.begin() + at + period);
    longer.insert(longer.end(), word.begin() + at, word.end());
  }
  return verify(problem, result).empty() ? std::optional(std::move(result)) : std::nullopt;
}

Words refillAll(const Problem &problem, const Block &block) {
  constexpr int64_t kPasses = 6; // later ones change hardly anything
  const Words repeated = repeat(problem, block);
  Bytes most = 0;
  for (const Word &word : repeated)
    most = std::max(most, peakOf(problem, word));
  const Capacities capacities(repeated.size(), most);
  Words best;
  std::pair<Time, Time> bestTimes;
  const auto offer = [&](Words words) {
    fillGaps(problem, capacities, words, kPasses);
    const Evaluation evaluation = evaluate(problem, words);
    const std::pair times(evaluation.span, evaluation.makespan);
    if (best.empty() || times < bestTimes) {
      bestTimes = times;
      best = words;
    }
    return words;
  };
  const Words filled = offer(repeated);
  if (problem.backward == BackwardMode::Fused)
    return best;
  offer(deferWeights(problem, capacities, repeated));
  offer(deferWeights(problem, capacities, filled));
  Words last = filled;
  deferLast(last);
  offer(std::move(last));
  return best;
}

} // namespace

Words refill(const Problem &problem, const Block &block) {
  constexpr int32_t kLong = 3; // microbatches a rank, from which on the middle only repeats
  if (problem.microbatches <= kLong * problem.ranks)
    return refillAll(problem, block);
  Problem fewer = problem;
  fewer.microbatches = kLong * problem.ranks;
  std::optional<Words> words = stretch(problem, refillAll(fewer, block), fewer.microbatches);
  return words ? std::move(*words) : refillAll(problem, block);
}

} // namespace pipec::schedule
