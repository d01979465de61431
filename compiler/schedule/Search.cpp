// Candidates are made and timed for the problem itself, or, where it is long, for two short ones first: what a
// microbatch more costs carries over. The best go on to local improvement; what they do with few microbatches is
// improved before it is done with all.
#include "compiler/schedule/Search.h"

#include "compiler/schedule/Beam.h"
#include "compiler/schedule/Buffers.h"
#include "compiler/schedule/Candidates.h"
#include "compiler/schedule/Evaluate.h"
#include "compiler/schedule/Grow.h"
#include "compiler/schedule/Pairing.h"
#include "compiler/schedule/Random.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <set>

namespace pipec::schedule {

namespace {

// At the usual effort, about a hundred nanoseconds a letter.
constexpr int64_t kTrialLetters = 2'500'000;             // in candidates at least, and
constexpr int64_t kTrialWords = 240;                     // this often the problem's letters, up to
constexpr int64_t kMostTrialLetters = 10'000'000;        // these, or
constexpr int64_t kLeastTrialWords = 20;                 // this often, if that is more
constexpr int64_t kNearLetters = 1 << 18;                // of problems with more, each counts nearly twice
constexpr int64_t kBeamLetters = 250'000;                // in all states of a beam together, each
constexpr int64_t kBeamWork = 8;                         // so many times as long
constexpr int64_t kLeastWidth = 24, kMostWidth = 10'000; // of all beams together
constexpr int64_t kFreeWidth = 1'000;                    // from which on one goes without limits of its own
constexpr int64_t kAnnealLetters = 6'000'000;
constexpr int64_t kFewLetters = 12'000'000; // in annealing few microbatches of many
constexpr int64_t kLeastAnnealing = 600;    // evaluations that are worth while
constexpr int64_t kFilling = 3;             // walks that a pass of filling gaps is as long as
constexpr int64_t kFinding = 4;             // walks that looking for a period is as long as
constexpr size_t kMostTried = 420;
constexpr size_t kFinalists = 4;

int64_t lettersOf(const Problem &problem) {
  return int64_t(problem.stages.size()) * problem.microbatches * (problem.backward == BackwardMode::Fused ? 2 : 3);
}

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
      hash = mixed(hash, 4 * uint64_t(op.stage) + uint64_t(op.letter));
  return hash;
}

struct Trial {
  size_t candidate = 0;
  Words words;
  Time time = 0;
};

class Solver {
public:
  /// With `needsBuffers`, only words for whose buffers the limit leaves room.
  Solver(const Problem &problem, const Capacities &capacities, const SolveOptions &options, bool needsBuffers)
      : problem(problem), capacities(capacities), options(options), needsBuffers(needsBuffers),
        letters(lettersOf(problem)), bound(boundOf(problem, options.objective)) {}

  std::optional<Solution> run() {
    candidates = candidatesOf(problem, capacities);
    mostTried = std::max<size_t>(kMostTried * size_t(std::min<int64_t>(options.effort, 100)) / 100, 8);
    const int64_t budget =
        std::max({kTrialLetters, std::min(kTrialWords * letters, kMostTrialLetters), kLeastTrialWords * letters}) /
        (letters > kNearLetters ? 180 : 100) * options.effort;
    std::vector<Trial> best;
    std::vector<Guess> guesses;
    if (problem.microbatches > 4 * problem.ranks && letters * int64_t(candidates.size()) > budget)
      best = screened(budget, guesses);
    else
      best = tried(budget, guesses);
    tryBeams(best);
    if (best.empty())
      return std::nullopt;
    improve(best, kAnnealLetters);
    growImproved(std::move(guesses), best);
    Trial &first = leastOf(best);
    return Solution{std::move(first.words), first.time, bound, candidates[first.candidate].name, triedCount, walked};
  }

private:
  const Problem &problem;
  const Capacities &capacities;
  const SolveOptions &options;
  const bool needsBuffers;
  const int64_t letters;
  const Time bound;
  std::vector<Candidate> candidates;
  size_t mostTried = 0;
  int64_t triedCount = 0, walked = 0;
  std::set<std::pair<int32_t, uint64_t>> seen; // words of so many microbatches
  std::map<int32_t, Time> shortestOf;          // of trials with so many microbatches
  std::map<size_t, Capacities> lowered;        // of a candidate, where its words need many buffers

  /// What words need in buffers is known when they are there. Where the limit does not hold that, the candidate gets
  /// less on every rank, then and later: words whose ranks differ too much in what they may hold are poor.
  std::optional<Trial> tryOn(const Problem &given, size_t candidate, int tries = 6) {
    Words last;
    for (int i = 0; i < tries; ++i) {
      const Capacities &capacity = capacitiesOf(candidate);
      std::optional<Words> words = candidates[candidate].make(given, capacity);
      ++triedCount;
      walked += 2 * lettersOf(given);
      if (words && i == 0 && !seen.insert({given.microbatches, hashOf(*words)}).second)
        return std::nullopt; // some published schedules are the same for one stage a rank
      if (!words || !fits(given, *words, capacity) || !verify(given, *words).empty())
        return std::nullopt;
      walked += lettersOf(given) * (1 + kFilling * fillGaps(given, capacity, *words, 1));
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

  /// The same with each W where memory needs it or its rank waits, if that is shorter. Not tried where it would have to
  /// be shorter by much to be the shortest.
  Trial withLaterWeights(const Problem &given, const Capacities &capacity, Trial trial) {
    constexpr int64_t kWorth = 105; // hundredths of the shortest
    Time &shortest = shortestOf.try_emplace(given.microbatches, trial.time).first->second;
    const bool single = given.stages.size() == size_t(given.ranks); // where policies for W say it all
    if (given.backward == BackwardMode::Fused || (single && candidates[trial.candidate].placesWeights) ||
        trial.time / kWorth > shortest / 100)
      return trial;
    shortest = std::min(shortest, trial.time);
    Words words = deferWeights(given, capacity, trial.words);
    walked += lettersOf(given) * (2 + kFilling * fillGaps(given, capacity, words, 2));
    if (needsBuffers && excessOf(given, words) > 0)
      return trial;
    const Time time = timeOf(given, words, options.objective);
    return time < trial.time ? Trial{trial.candidate, std::move(words), time} : std::move(trial);
  }

  /// Capacities with room for twice as many buffers, as often as it takes.
  Capacities lessBy(__int128 excess, const Capacities &than) const {
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

  const Capacities &capacitiesOf(size_t candidate) const {
    const auto found = lowered.find(candidate);
    return found == lowered.end() ? capacities : found->second;
  }

  /// What a candidate would take for all microbatches, told from fewer of them.
  struct Guess {
    double time = 0;
    Trial few;
    Period period; // that would go on

    bool operator<(const Guess &other) const {
      return time != other.time ? time < other.time : few.candidate < other.few.candidate;
    }
  };

  std::vector<Trial> tried(int64_t budget, std::vector<Guess> &guesses) {
    std::vector<Trial> best;
    for (size_t i = 0; i < candidates.size() && (best.empty() || (walked < budget && i < mostTried)); ++i) {
      if (std::optional<Trial> trial = tryOn(problem, i))
        keepShortest(best, std::move(*trial), kFinalists);
      if (!best.empty() && best.front().time <= bound)
        break;
    }
    if (const Problem few = fewOf();
        few.microbatches < problem.microbatches && !best.empty() && best.front().time > bound)
      for (const Trial &trial : best)
        if (std::optional<Guess> each = guess(few, trial.candidate))
          guesses.push_back(std::move(*each));
    return best;
  }

  /// Of 2p microbatches: what they do again and again would go on; where there is no such thing, what they take more
  /// than p.
  std::optional<Guess> guess(const Problem &few, size_t candidate) {
    std::optional<Trial> trial = tryOn(few, candidate);
    if (!trial)
      return std::nullopt;
    Period period = periodOf(few, trial->words, options.objective);
    walked += kFinding * lettersOf(few);
    if (period.microbatches == 0) {
      Problem fewer = problem;
      fewer.microbatches = problem.ranks;
      const std::optional<Trial> other = tryOn(fewer, candidate);
      if (!other)
        return std::nullopt;
      period.each = double(trial->time - other->time) / (few.microbatches - fewer.microbatches);
    }
    const double time = period.timeWith(problem.microbatches - few.microbatches);
    return Guess{time, std::move(*trial), std::move(period)};
  }

  std::optional<Trial> growOn(const Problem &few, const Guess &guess) {
    Words words = grown(problem, few, guess.few.words, guess.period);
    const Capacities &capacity = capacitiesOf(guess.few.candidate);
    walked += 2 * letters;
    if (!fits(problem, words, capacity) || !verify(problem, words).empty())
      return std::nullopt;
    walked += letters * (1 + kFilling * fillGaps(problem, capacity, words, 1));
    if (needsBuffers && excessOf(problem, words) > 0)
      return std::nullopt;
    const Time time = timeOf(problem, words, options.objective);
    return Trial{guess.few.candidate, std::move(words), time};
  }

  /// The best by their guesses: what goes on from fewer of them, then what is made of all of them anew.
  std::vector<Trial> screened(int64_t budget, std::vector<Guess> &guesses) {
    const Problem few = fewOf();
    for (size_t i = 0; i < candidates.size() && i < mostTried && (guesses.empty() || walked < budget); ++i)
      if (std::optional<Guess> each = guess(few, i))
        guesses.push_back(std::move(*each));
    // What is best of few need not go on as its middle does.
    const auto shortest = std::min_element(guesses.begin(), guesses.end(),
                                           [](const Guess &a, const Guess &b) { return a.few.time < b.few.time; });
    std::vector<Trial> best;
    if (shortest != guesses.end())
      if (std::optional<Trial> trial = tryOn(problem, shortest->few.candidate))
        keepShortest(best, std::move(*trial), kFinalists);
    std::sort(guesses.begin(), guesses.end());
    for (const bool grows : {true, false})
      for (const Guess &each : guesses) {
        if (!best.empty() && (walked >= 2 * budget || best.front().time <= bound))
          return best;
        if (grows && each.period.microbatches == 0)
          continue;
        if (!best.empty() && !isWorthwhile(each, best.front().time))
          break;
        if (std::optional<Trial> trial = grows ? growOn(few, each) : tryOn(problem, each.few.candidate))
          keepShortest(best, std::move(*trial), kFinalists);
      }
    return best;
  }

  Problem fewOf() const {
    Problem few = problem;
    few.microbatches = 2 * problem.ranks;
    return few;
  }

  static Trial &leastOf(std::vector<Trial> &trials) {
    return *std::min_element(trials.begin(), trials.end(),
                             [](const Trial &a, const Trial &b) { return a.time < b.time; });
  }

  static bool isWorthwhile(const Guess &guess, Time shortest) {
    constexpr double kWorth = 1.02;
    return guess.time <= kWorth * double(shortest);
  }

  /// What the likeliest do with few microbatches is improved first, half of the work on all of them, half on the best:
  /// what then goes on is better for every microbatch more.
  void growImproved(std::vector<Guess> &&guesses, std::vector<Trial> &best) {
    const Problem few = fewOf();
    const int64_t evaluations = kFewLetters / 100 * options.effort / lettersOf(few);
    const auto most = size_t(std::min<int64_t>(evaluations / kLeastAnnealing, kFinalists));
    const Time shortest = leastOf(best).time;
    if (guesses.empty() || most == 0 || shortest <= bound)
      return;
    std::sort(guesses.begin(), guesses.end());
    guesses.resize(std::min(guesses.size(), most));
    std::vector<Guess> longer;
    for (const Guess &each : guesses)
      improve(few, each, evaluations / 2 / int64_t(guesses.size()), longer);
    if (const auto likeliest = std::min_element(longer.begin(), longer.end());
        likeliest != longer.end() && isWorthwhile(*likeliest, shortest))
      improve(few, Guess(*likeliest), evaluations / 2, longer);
    std::vector<Trial> all;
    for (const Guess &each : longer)
      if (isWorthwhile(each, shortest))
        if (std::optional<Trial> trial = growOn(few, each))
          keepShortest(all, std::move(*trial), 1);
    if (all.empty())
      return;
    improve(all, kAnnealLetters);
    best.push_back(std::move(all.front()));
  }

  void improve(const Problem &few, const Guess &guess, int64_t evaluations, std::vector<Guess> &longer) {
    Annealing annealing;
    annealing.objective = options.objective;
    annealing.evaluations = evaluations;
    annealing.seed = longer.size() + 1;
    Trial trial = guess.few;
    const int64_t taken = anneal(few, capacitiesOf(trial.candidate), trial.words, annealing);
    walked += (taken + kFinding) * lettersOf(few);
    if (needsBuffers && excessOf(few, trial.words) > 0)
      return;
    trial.time = timeOf(few, trial.words, options.objective);
    Period period = periodOf(few, trial.words, options.objective);
    if (period.microbatches == 0)
      return;
    const double time = period.timeWith(problem.microbatches - few.microbatches);
    longer.push_back({time, std::move(trial), std::move(period)});
  }

  /// Words of beams, where the others leave a gap; a little worse than theirs they may still be those that improve.
  void tryBeams(std::vector<Trial> &best) {
    const int64_t width = std::min(kBeamLetters / 100 * options.effort / letters, kMostWidth);
    if (!canBeam(problem) || width < kLeastWidth)
      return;
    const std::vector<std::vector<int32_t>> rooms = roomsOf(width);
    for (size_t i = 0; i < rooms.size() && (best.empty() || best.front().time > bound); ++i) {
      const size_t each = size_t(width) / rooms.size();
      candidates.push_back(
          {fmt::format("beam {} of {} states", i, each), [&, each](const Problem &given, const Capacities &capacity) {
             return beamed(
                 given, capacity,
                 {.objective = options.objective, .below = worthwhile(best), .width = each, .mostOfStage = rooms[i]});
           }});
      if (std::optional<Trial> trial = tryOn(problem, candidates.size() - 1, 2))
        keepShortest(best, std::move(*trial), kFinalists);
    }
  }

  static Time worthwhile(const std::vector<Trial> &best) {
    constexpr Time kWorth = 50; // a part in so many worse
    return best.empty() ? std::numeric_limits<Time>::max() : best.front().time + best.front().time / kWorth;
  }

  std::optional<Words> beamed(const Problem &given, const Capacities &capacity, const BeamOptions &beamOptions) {
    BeamResult found = beam(given, capacity, beamOptions);
    walked += kBeamWork * found.letters;
    return std::move(found.words);
  }

  /// How many microbatches beams let wait at each stage: a narrow one fills the ranks' memory with first chunks, so
  /// that few get through, unless all stages but each rank's last keep to their shares, or to one more than that.
  std::vector<std::vector<int32_t>> roomsOf(int64_t width) const {
    const std::vector<int32_t> shares = sharesOf(problem, capacities);
    if (shares.empty())
      return {{}};
    std::vector<std::vector<int32_t>> rooms;
    for (const int32_t more : {1, 0}) {
      std::vector<int32_t> &room = rooms.emplace_back(shares);
      for (int32_t &most : room)
        most += more;
      for (const std::vector<int32_t> &mine : problem.stagesByRank())
        room[size_t(mine.back())] = problem.microbatches;
    }
    if (width < 2 * kLeastWidth)
      rooms.erase(rooms.begin());
    else if (width >= kFreeWidth)
      rooms.push_back({});
    return rooms;
  }

  void improve(std::vector<Trial> &best, int64_t work) {
    const int64_t all = work / 100 * options.effort / letters;
    const int64_t least = std::max<int64_t>(kLeastAnnealing / 100 * std::min<int64_t>(options.effort, 100), 1);
    if (all < least)
      return;
    best.resize(std::min(best.size(), size_t(all / least)));
    const int64_t each = all / int64_t(best.size());
    for (size_t i = 0; i < best.size(); ++i) {
      Annealing annealing;
      annealing.objective = options.objective;
      annealing.evaluations = each;
      annealing.enough = bound;
      annealing.seed = i + 1;
      if (leastOf(best).time <= bound)
        return;
      Words words = best[i].words;
      walked += letters * anneal(problem, capacitiesOf(best[i].candidate), words, annealing);
      if (needsBuffers && excessOf(problem, words) > 0)
        continue;
      best[i].words = std::move(words);
      best[i].time = timeOf(problem, best[i].words, options.objective);
    }
  }
};

} // namespace

Capacities capacitiesOf(const Problem &problem, int32_t buffers) {
  Capacities capacities;
  if (problem.memoryLimit == 0)
    return capacities;
  for (const __int128 bytes : heldAlways(problem, buffers))
    capacities.push_back(static_cast<Bytes>(std::max<__int128>(problem.memoryLimit - bytes, 0)));
  return capacities;
}

Time boundOf(const Problem &problem, Objective objective) {
  const Bounded bounds = lowerBounds(problem);
  return objective == Objective::Makespan ? bounds.makespan : bounds.span;
}

std::optional<Solution> solve(const Problem &problem, const SolveOptions &options) {
  if (hasPairs(problem))
    return solvePaired(problem, options);
  if (problem.memoryLimit != 0 && problem.memoryLimit < leastLimit(problem))
    return std::nullopt;
  const auto capacitiesWith = [&](int32_t buffers) {
    Capacities capacities = capacitiesOf(problem, buffers);
    for (Bytes &capacity : capacities)
      capacity = std::max<Bytes>(capacity - options.spare, 0);
    return capacities;
  };
  const Capacities capacities = capacitiesWith(options.buffers);
  const bool hasBuffers =
      std::any_of(problem.stages.begin(), problem.stages.end(), [](const Stage &stage) { return stage.boundary > 0; });
  if (capacities.empty() || !hasBuffers)
    return Solver(problem, capacities, options, false).run();
  for (int32_t buffers = options.buffers;; buffers = 1) {
    if (std::optional<Solution> solution = Solver(problem, capacitiesWith(buffers), options, true).run())
      return solution;
    if (buffers <= 1)
      break;
  }
  Words words = oneAtATime(problem);
  const Time time = timeOf(problem, words, options.objective);
  return Solution{std::move(words), time, boundOf(problem, options.objective), "one microbatch at a time"};
}

} // namespace pipec::schedule
