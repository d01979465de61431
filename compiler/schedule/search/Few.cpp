#include "compiler/schedule/search/Few.h"

#include "compiler/schedule/search/Ways.h"

namespace pipec::schedule {

namespace {

constexpr int64_t kFinding = 4; // walks that looking for a period is as long as

} // namespace

std::optional<Guess> Few::guess(size_t candidate) {
  std::optional<Trial> trial = trials.tryOn(few, candidate);
  if (!trial)
    return std::nullopt;
  Period period = periodOf(few, trial->words, trials.options.objective);
  trials.walked += kFinding * lettersOf(few);
  if (period.microbatches == 0) {
    Problem fewer = problem;
    fewer.microbatches = problem.ranks;
    const std::optional<Trial> other = trials.tryOn(fewer, candidate);
    if (!other)
      return std::nullopt;
    period.each = double(trial->time - other->time) / (few.microbatches - fewer.microbatches);
  }
  const double time = timeOfAll(period);
  return Guess{time, std::move(*trial), std::move(period)};
}

std::optional<Trial> Few::grow(const Guess &guess) {
  return trials.tryWords(guess.few.candidate, grown(problem, few, guess.few.words, guess.period));
}

void Few::growImproved(std::vector<Guess> &&guesses, std::vector<Trial> &best, size_t most, int64_t lettersOfFew,
                       int64_t lettersOfAll) {
  const int64_t evaluations = lettersOfFew / 100 * trials.options.effort / lettersOf(few);
  most = size_t(std::min<int64_t>(evaluations / kLeastAnnealing, int64_t(most)));
  const Time shortest = leastOf(best).time;
  if (!trials.options.has(kFewWay) || guesses.empty() || most == 0 || shortest <= trials.bound ||
      trials.options.stop.stop_requested())
    return;
  std::sort(guesses.begin(), guesses.end());
  guesses.resize(std::min(guesses.size(), most));
  std::vector<Guess> longer;
  for (const Guess &each : guesses)
    improve(each, evaluations / 2 / int64_t(guesses.size()), longer);
  if (const auto likeliest = std::min_element(longer.begin(), longer.end());
      likeliest != longer.end() && isWorthwhile(*likeliest, shortest))
    improve(Guess(*likeliest), evaluations / 2, longer);
  std::vector<Trial> all;
  for (const Guess &each : longer)
    if (isWorthwhile(each, shortest))
      if (std::optional<Trial> trial = grow(each))
        keepShortest(all, std::move(*trial), 1);
  if (all.empty())
    return;
  trials.improve(all, lettersOfAll);
  best.push_back(std::move(all.front()));
}

void Few::improve(const Guess &guess, int64_t evaluations, std::vector<Guess> &longer) {
  Trial trial = guess.few;
  if (!trials.improve(few, trial, evaluations, longer.size() + 1))
    return;
  Period period = periodOf(few, trial.words, trials.options.objective);
  trials.walked += kFinding * lettersOf(few);
  if (period.microbatches == 0)
    return;
  const double time = timeOfAll(period);
  longer.push_back({time, std::move(trial), std::move(period)});
}

} // namespace pipec::schedule
