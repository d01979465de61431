// `solve` where passes may run overlapped. It starts from words of searches that know no pairs and from schedules of
// the catalogue that have pairs, joins neighbours to pairs, improves the words by local search, and takes the best.
#include "compiler/schedule/catalogue/Catalogue.h"
#include "compiler/schedule/evaluate/Buffers.h"
#include "compiler/schedule/evaluate/Evaluate.h"
#include "compiler/schedule/overlap/Pairing.h"

#include <algorithm>
#include <fmt/format.h>

namespace pipec::schedule {

namespace {

constexpr int64_t kAnnealLetters = 12'000'000; // at the usual effort
constexpr int64_t kListLetters = 4'000'000;
constexpr int64_t kLeastAnnealing = 600; // evaluations that are worth while
constexpr size_t kFinalists = 3;

struct Found {
  Words words;
  Time time = 0;
  std::string source;
};

class PairSearch {
public:
  PairSearch(const Problem &problem, const SolveOptions &options)
      : problem(problem), options(options), capacities(capacitiesOf(problem, options.buffers)) {}

  std::optional<Solution> run() {
    const std::optional<Solution> plain = solve(apart(problem), options);
    if (!plain)
      return std::nullopt;
    tried = plain->tried;
    walked = plain->letters;
    for (const Word &word : plain->words)
      letters += int64_t(word.size());
    excess = excessOf(plain->words); // of the search where no words were found for whose buffers there is room
    keepShortest(best, {plain->words, plain->time, plain->source}, kFinalists);
    pair(plain->words, plain->source);
    const Problem eased = asIfPaired(problem);
    if (check(eased).empty())
      if (const std::optional<Solution> shorter = solve(eased, options)) {
        tried += shorter->tried;
        walked += shorter->letters;
        pair(shorter->words, shorter->source);
      }
    for (const Entry &entry : catalogue())
      if (entry.overlaps && check(entry, problem, {}).empty()) {
        const Words words = wordsOf(entry, problem, {});
        offer(words, std::string(entry.name));
        pair(words, std::string(entry.name));
      }
    listed();
    bound = boundOf(problem, options.objective);
    improve();
    Found &first = best.front();
    return Solution{std::move(first.words), first.time, bound, std::move(first.source), tried, walked};
  }

private:
  const Problem &problem;
  const SolveOptions &options;
  const Capacities capacities;
  __int128 excess = 0;
  int64_t letters = 0, tried = 0, walked = 0;
  Time bound = 0;
  std::vector<Found> best; // the shortest first

  __int128 excessOf(const Words &words) const {
    return problem.memoryLimit == 0 ? 0 : std::max<__int128>(schedule::excessOf(problem, words), 0);
  }

  void offer(Words words, const std::string &source) {
    ++tried;
    walked += 2 * letters;
    for (size_t r = 0; r < capacities.size(); ++r)
      if (peakOf(problem, words[r]) > capacities[r])
        return;
    if (!verify(problem, words).empty() || excessOf(words) > excess)
      return;
    const Time time = timeOf(problem, words, options.objective);
    keepShortest(best, {std::move(words), time, source}, kFinalists);
  }

  void pair(const Words &words, const std::string &source) {
    for (const bool backwardFirst : {false, true}) {
      offer(paired(problem, capacities, words, backwardFirst), source + ", paired");
      walked += 8 * letters;
    }
  }

  void listed() {
    int64_t budget = kListLetters / 100 * options.effort;
    for (const auto &[base, slope] : {std::pair(0, 0), std::pair(200, 200), std::pair(100, 100), std::pair(200, 150),
                                      std::pair(200, 300), std::pair(200, 400)})
      for (const int32_t patience : {100, 0, 200, 50})
        for (const bool deepest : {true, false}) {
          if (budget < 0 || options.stop.stop_requested())
            return;
          budget -= 4 * letters;
          walked += 2 * letters;
          const PairPolicy policy{deepest, patience, base, slope};
          if (std::optional<Words> words = listPairs(problem, capacities, policy))
            offer(std::move(*words),
                  fmt::format("list schedule of pairs, {} {} {} {}", base, slope, patience, deepest));
        }
  }

  void improve() {
    const int64_t all = kAnnealLetters / 100 * options.effort / letters;
    const int64_t least = std::max<int64_t>(kLeastAnnealing / 100 * std::min<int64_t>(options.effort, 100), 1);
    std::vector<Found> seeds(best.begin(), best.begin() + std::min<int64_t>(int64_t(best.size()), all / least));
    for (size_t i = 0; i < seeds.size() && best.front().time > bound && !options.stop.stop_requested(); ++i) {
      Annealing annealing;
      annealing.objective = options.objective;
      annealing.evaluations = all / int64_t(seeds.size());
      annealing.enough = bound;
      annealing.seed = i + 1;
      annealing.stop = options.stop;
      Words words = halved(problem, seeds[i].words);
      walked += letters * annealPairs(problem, capacities, words, annealing);
      offer(std::move(words), seeds[i].source);
    }
  }
};

} // namespace

std::optional<Solution> solvePaired(const Problem &problem, const SolveOptions &options) {
  if (!hasPairs(problem) || problem.recomputes()) // pairs are not searched for then
    return solve(problem, options);
  if (!problem.hasBackwardContexts())
    return PairSearch(problem, options).run();
  std::optional<Solution> found = PairSearch(withoutBackwardContexts(problem), options).run();
  if (!found) // what fits into less memory than that pairs nothing
    return solve(problem, options);
  found->bound = boundOf(problem, options.objective);
  return found;
}

} // namespace pipec::schedule
