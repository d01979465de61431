// Refills a repeated block. At both ends of a step half of the block's slots are empty, since there are no microbatches
// before the first and after the last; later passes move into these slots. A W that is in the way is first deferred
// until memory needs it, and then moved back to where the rank waits. The fastest of all variants is kept.
#include "compiler/schedule/construct/Refill.h"
#include "compiler/schedule/evaluate/Evaluate.h"
#include "compiler/schedule/improve/LocalSearch.h"

#include <algorithm>
#include <optional>

namespace pipec::schedule {

namespace {

/// Moves each W that follows a rank's last F to the end of the word.
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

/// Extends words of fewer microbatches to words of `problem`. In the middle of its word a rank repeats a sequence that
/// has every letter once; more copies of this sequence are inserted. None if a rank has no such sequence, or if the
/// longer words do not pass `verify`.
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

/// The problem in a block's slots: F, B and W take one slot each, BW takes two, and transfers take none.
Problem inSlots(const Problem &problem) {
  Problem result = problem;
  result.link = {};
  result.links.clear();
  for (Stage &stage : result.stages) {
    stage.forward = stage.backwardInput = stage.backwardWeight = 1;
    stage.backward = 2;
    stage.recompute = stage.optimizer = 0;
  }
  return result;
}

/// Three variants of a block's words, with gaps filled by the times of `problem`: each W where the block has it; each W
/// deferred until memory or a gap needs it; only the W after a rank's last F deferred.
std::vector<Words> fillings(const Problem &problem, const Capacities &capacities, const Words &repeated) {
  constexpr int32_t kManyRanks = 48;
  const int64_t passes = problem.ranks < kManyRanks ? 2 : 1; // more passes change hardly anything
  std::vector<Words> result;
  const auto add = [&](Words words) {
    fillGaps(problem, capacities, words, passes);
    result.push_back(std::move(words));
  };
  add(repeated);
  if (problem.backward == BackwardMode::Fused)
    return result;
  Words last = result.front();
  deferLast(last);
  add(deferWeights(problem, capacities, repeated));
  add(deferWeights(problem, capacities, result.front()));
  add(std::move(last));
  return result;
}

Capacities peaksOf(const Problem &problem, const Words &words) {
  Bytes most = 0;
  for (const Word &word : words)
    most = std::max(most, peakOf(problem, word));
  return Capacities(words.size(), most);
}

/// All fillings: by slot times, with a last pass that fills the gaps left by unequal passes; and by the problem's
/// times.
std::vector<Words> refillings(const Problem &problem, const Block &block) {
  const Words repeated = repeat(problem, block);
  const Capacities capacities = peaksOf(problem, repeated);
  std::vector<Words> result = fillings(inSlots(problem), capacities, repeated);
  for (Words &words : result)
    fillGaps(problem, capacities, words, 1);
  for (Words &words : fillings(problem, capacities, repeated))
    result.push_back(std::move(words));
  return result;
}

using Times = std::pair<Time, Time>; // span and makespan

Times timesOf(const Problem &problem, const Words &words) {
  const Evaluation evaluation = evaluate(problem, words);
  return {evaluation.span, evaluation.makespan};
}

} // namespace

Words refill(const Problem &problem, const Block &block) {
  constexpr int32_t kLong = 3; // microbatches per rank; with more, the middle of the words only repeats
  Problem few = problem, more = problem;
  few.microbatches = kLong * problem.ranks;
  more.microbatches = (kLong + 1) * problem.ranks;
  const bool isLong = problem.microbatches > few.microbatches;
  if (!isLong)
    few.microbatches = problem.microbatches;
  Words best;
  std::optional<Times> least;
  for (Words &words : refillings(few, block)) {
    Times times = timesOf(few, words);
    if (isLong) { // extrapolates what one more microbatch per rank adds
      const std::optional<Words> longer = stretch(more, words, few.microbatches);
      if (!longer)
        continue;
      const Times onward = timesOf(more, *longer);
      const Time ahead = problem.microbatches - more.microbatches;
      times = {onward.first + (onward.first - times.first) / problem.ranks * ahead,
               onward.second + (onward.second - times.second) / problem.ranks * ahead};
    }
    if (least && times >= *least)
      continue;
    least = times;
    best = std::move(words);
  }
  if (isLong && least)
    if (std::optional<Words> words = stretch(problem, best, few.microbatches))
      return std::move(*words);
  if (!isLong)
    return best;
  best = repeat(problem, block);
  fillGaps(problem, peaksOf(problem, best), best, 2);
  return best;
}

} // namespace pipec::schedule
