#include "compiler/schedule/search/Trials.h"

#include "compiler/schedule/evaluate/Buffers.h"
#include "compiler/schedule/evaluate/Evaluate.h"
#include "compiler/schedule/model/Random.h"
#include "compiler/schedule/search/Ways.h"

namespace pipec::schedule {

namespace {

constexpr int64_t kFilling = 3; // walks that a pass of filling gaps is as long as

bool fits(const Problem &problem, const Words &words, const Capacities &capacities) {
  if (capacities.empty())
    return true;
  for (size_t r = 0; r < words.size(); ++r)
    if (peakOf(problem, words[r]) > capacities[r])
      return false;
  return true;
}

uint64_t hashOf(const Words &words) {
  uint64_t hash = 0;
  for (const Word &word : words)
    for (const Op &op : word)
      hash = mixed(hash, kWordLetters * uint64_t(op.stage) + uint64_t(op.letter));
  return hash;
}

} // namespace

int64_t lettersOf(const Problem &problem) {
  return int64_t(problem.stages.size()) * problem.microbatches * (problem.backward == BackwardMode::Fused ? 2 : 3);
}

Trials::Trials(const Problem &problem, const Capacities &capacities, const SolveOptions &options, bool needsBuffers)
    : problem(problem), options(options), letters(lettersOf(problem)), bound(boundOf(problem, options.objective)),
      candidates(candidatesOf(problem, capacities)), capacities(capacities), needsBuffers(needsBuffers) {
  std::erase_if(candidates, [&](const Candidate &each) { return !options.has(each.way); });
}

/// How many buffers words need is known only once there are words. If the limit has no room for these, the candidate
/// gets less capacity, now and later, and less on every rank: words are poor if ranks differ much in what they may
/// hold.
std::optional<Trial> Trials::tryOn(const Problem &given, size_t candidate, int tries) {
  Words last;
  for (int i = 0; i < tries; ++i) {
    const Capacities &capacity = capacitiesOf(candidate);
    std::optional<Words> words = candidates[candidate].make(given, capacity);
    ++count;
    walked += 2 * lettersOf(given);
    if (words && i == 0 && !seen.insert({given.microbatches, hashOf(*words)}).second)
      return std::nullopt; // some published schedules are the same for one stage a rank
    if (!words || !fits(given, *words, capacity) || !verify(given, *words).empty())
      return std::nullopt;
    fill(given, capacity, *words, 1);
    const __int128 excess = needsBuffers ? excessOf(given, *words) : 0;
    if (excess <= 0) {
      const Time time = timeOf(given, *words, options.objective);
      return withLaterWeights(given, capacity, Trial{candidate, std::move(*words), time});
    }
    if (*words == last)
      return std::nullopt;
    last = std::move(*words);
    lowered[candidate] = lessBy(excess, capacity);
  }
  return std::nullopt;
}

/// The trial with each W moved to where memory needs it or its rank waits, if that is shorter. Not tried where even
/// much shorter words would not be the shortest.
Trial Trials::withLaterWeights(const Problem &given, const Capacities &capacity, Trial trial) {
  constexpr int64_t kWorth = 105; // hundredths of the shortest
  Time &shortest = shortestOf.try_emplace(given.microbatches, trial.time).first->second;
  const bool single = given.stages.size() == size_t(given.ranks); // where policies for W say it all
  if (!options.has(kDeferWay) || given.backward == BackwardMode::Fused ||
      (single && candidates[trial.candidate].placesWeights) || trial.time / kWorth > shortest / 100)
    return trial;
  shortest = std::min(shortest, trial.time);
  Words words = deferWeights(given, capacity, trial.words);
  walked += lettersOf(given);
  fill(given, capacity, words, 2);
  if (needsBuffers && excessOf(given, words) > 0)
    return trial;
  const Time time = timeOf(given, words, options.objective);
  return time < trial.time ? Trial{trial.candidate, std::move(words), time, true} : std::move(trial);
}

void Trials::fill(const Problem &given, const Capacities &capacity, Words &words, int64_t passes) {
  walked += lettersOf(given);
  if (options.has(kFillWay))
    walked += lettersOf(given) * kFilling * fillGaps(given, capacity, words, passes);
}

/// Capacities with room for twice as many buffers, as often as it takes.
Capacities Trials::lessBy(__int128 excess, const Capacities &than) const {
  constexpr int32_t kMostBuffers = 1 << 12;
  for (int32_t buffers = 2 * std::max(options.buffers, 1);; buffers *= 2) {
    Capacities less = schedule::capacitiesOf(problem, buffers);
    bool enough = true;
    for (size_t r = 0; r < less.size(); ++r)
      enough &= less[r] == 0 || than[r] - less[r] >= excess;
    if (enough || buffers >= kMostBuffers)
      return less;
  }
}

const Capacities &Trials::capacitiesOf(size_t candidate) const {
  const auto found = lowered.find(candidate);
  return found == lowered.end() ? capacities : found->second;
}

std::optional<Trial> Trials::tryWords(size_t candidate, Words words) {
  const Capacities &capacity = capacitiesOf(candidate);
  walked += 2 * letters;
  if (!fits(problem, words, capacity) || !verify(problem, words).empty())
    return std::nullopt;
  fill(problem, capacity, words, 1);
  if (needsBuffers && excessOf(problem, words) > 0)
    return std::nullopt;
  const Time time = timeOf(problem, words, options.objective);
  return Trial{candidate, std::move(words), time};
}

void Trials::improve(std::vector<Trial> &best, int64_t work) {
  const int64_t all = work / 100 * options.effort / letters;
  const int64_t least = std::max<int64_t>(kLeastAnnealing / 100 * std::min<int64_t>(options.effort, 100), 1);
  if (all < least || !options.has(kAnnealWay))
    return;
  best.resize(std::min(best.size(), size_t(all / least)));
  const int64_t each = all / int64_t(best.size());
  for (size_t i = 0; i < best.size(); ++i) {
    Annealing annealing;
    annealing.objective = options.objective;
    annealing.evaluations = each;
    annealing.enough = bound;
    annealing.seed = i + 1;
    annealing.stop = options.stop;
    if (leastOf(best).time <= bound || options.stop.stop_requested())
      return;
    Words words = best[i].words;
    walked += letters * anneal(problem, capacitiesOf(best[i].candidate), words, annealing);
    if (needsBuffers && excessOf(problem, words) > 0)
      continue;
    best[i].words = std::move(words);
    best[i].time = timeOf(problem, best[i].words, options.objective);
  }
}

bool Trials::improve(const Problem &few, Trial &trial, int64_t evaluations, uint64_t seed) {
  Annealing annealing;
  annealing.objective = options.objective;
  annealing.evaluations = evaluations;
  annealing.seed = seed;
  annealing.stop = options.stop;
  walked += lettersOf(few) * anneal(few, capacitiesOf(trial.candidate), trial.words, annealing);
  trial.time = timeOf(few, trial.words, options.objective);
  return !needsBuffers || excessOf(few, trial.words) <= 0;
}

} // namespace pipec::schedule
