// Candidates are made and timed for the problem itself or, where it has many microbatches, for few of them first
// (Few.h). The best go on to local improvement; words for few microbatches are improved before they are repeated for
// all.
#include "compiler/schedule/search/Search.h"

#include "compiler/schedule/construct/Beam.h"
#include "compiler/schedule/evaluate/Evaluate.h"
#include "compiler/schedule/improve/Fuse.h"
#include "compiler/schedule/search/Few.h"
#include "compiler/schedule/search/Trials.h"
#include "compiler/schedule/search/Ways.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>

namespace pipec::schedule {

namespace {

// At the usual effort, about a hundred nanoseconds a letter.
constexpr int64_t kTrialLetters = 2'500'000;             // in candidates at least, and
constexpr int64_t kTrialWords = 240;                     // this often the problem's letters, up to
constexpr int64_t kMostTrialLetters = 10'000'000;        // these, or
constexpr int64_t kLeastTrialWords = 20;                 // this often, if that is more
constexpr int64_t kScreenedLetters = 1 << 13;            // of problems with more, few microbatches of many come first
constexpr int64_t kNearLetters = 1 << 18;                // of problems with more, each counts nearly twice
constexpr int64_t kBeamLetters = 250'000;                // in all states of a beam together, each
constexpr int64_t kBeamWork = 8;                         // so many times as long
constexpr int64_t kLeastWidth = 24, kMostWidth = 10'000; // of all beams together
constexpr int64_t kFreeWidth = 1'000;                    // from which on one goes without limits of its own
constexpr int64_t kAnnealLetters = 6'000'000;
constexpr int64_t kFewLetters = 12'000'000; // in annealing few microbatches of many
constexpr size_t kMostTried = 420;
constexpr size_t kFinalists = 4;

class Solver {
public:
  /// With `needsBuffers`, only words for whose buffers the limit leaves room.
  Solver(const Problem &problem, const Capacities &capacities, const SolveOptions &options, bool needsBuffers)
      : problem(problem), capacities(capacities), options(options), trials(problem, capacities, options, needsBuffers),
        few(trials), mostTried(std::max<size_t>(kMostTried * size_t(std::min<int64_t>(options.effort, 100)) / 100, 8)) {
  }

  std::optional<Solution> run() {
    const int64_t letters = trials.letters;
    const int64_t budget =
        std::max({kTrialLetters, std::min(kTrialWords * letters, kMostTrialLetters), kLeastTrialWords * letters}) /
        (letters > kNearLetters ? 180 : 100) * options.effort;
    std::vector<Trial> best;
    std::vector<Guess> guesses;
    if (problem.microbatches > 4 * problem.ranks && letters > kScreenedLetters)
      best = screened(budget, guesses);
    else
      best = tried(budget, guesses);
    tryBeams(best);
    if (best.empty())
      return std::nullopt;
    std::set<std::string> ways = waysOf(best, guesses);
    for (const std::string &way : options.without)
      ways.erase(way);
    trials.improve(best, kAnnealLetters);
    few.growImproved(std::move(guesses), best, kFinalists, kFewLetters, kAnnealLetters);
    Trial &first = leastOf(best);
    return Solution{std::move(first.words), first.time,    trials.bound,   trials.candidates[first.candidate].name,
                    trials.count,           trials.walked, std::move(ways)};
  }

private:
  const Problem &problem;
  const Capacities &capacities;
  const SolveOptions &options;
  Trials trials;
  Few few;
  const size_t mostTried;

  bool hasToStop() const { return options.stop.stop_requested(); }

  /// Of the words that go on to be improved; of the first alone where these are proven to be the best.
  std::set<std::string> waysOf(const std::vector<Trial> &best, const std::vector<Guess> &guesses) const {
    std::set<std::string> ways = {std::string(kFillWay)};
    const auto add = [&](const Trial &trial) {
      ways.insert(trials.candidates[trial.candidate].way);
      if (trial.deferred)
        ways.emplace(kDeferWay);
    };
    if (best.front().time <= trials.bound)
      return add(best.front()), ways;
    for (const Trial &each : best)
      add(each);
    for (size_t i = 0; i < guesses.size() && i < kFinalists; ++i)
      add(guesses[i].few);
    ways.insert({std::string(kAnnealWay), std::string(kFewWay)});
    return ways;
  }

  std::vector<Trial> tried(int64_t budget, std::vector<Guess> &guesses) {
    std::vector<Trial> best;
    for (size_t i = 0;
         i < trials.candidates.size() && !hasToStop() && (best.empty() || (trials.walked < budget && i < mostTried));
         ++i) {
      if (std::optional<Trial> trial = trials.tryOn(problem, i))
        keepShortest(best, std::move(*trial), kFinalists);
      if (!best.empty() && best.front().time <= trials.bound)
        break;
    }
    if (few.isFewer() && !best.empty() && best.front().time > trials.bound && !hasToStop())
      for (const Trial &trial : best)
        if (std::optional<Guess> each = few.guess(trial.candidate))
          guesses.push_back(std::move(*each));
    return best;
  }

  /// Words for all microbatches of the best candidates by their guesses.
  std::vector<Trial> screened(int64_t budget, std::vector<Guess> &guesses) {
    for (size_t i = 0;
         i < trials.candidates.size() && i < mostTried && !hasToStop() && (guesses.empty() || trials.walked < budget);
         ++i)
      if (std::optional<Guess> each = few.guess(i))
        guesses.push_back(std::move(*each));
    // Words that are best for few microbatches need not repeat well.
    const auto shortest = std::min_element(guesses.begin(), guesses.end(),
                                           [](const Guess &a, const Guess &b) { return a.few.time < b.few.time; });
    std::vector<Trial> best;
    if (shortest != guesses.end())
      if (std::optional<Trial> trial = trials.tryOn(problem, shortest->few.candidate))
        keepShortest(best, std::move(*trial), kFinalists);
    std::sort(guesses.begin(), guesses.end());
    for (const Guess &each : guesses) {
      if (!best.empty() && (trials.walked >= 2 * budget || best.front().time <= trials.bound ||
                            !Few::isWorthwhile(each, best.front().time) || hasToStop()))
        break;
      if (std::optional<Trial> trial = trials.tryOn(problem, each.few.candidate))
        keepShortest(best, std::move(*trial), kFinalists);
    }
    return best;
  }

  /// Adds words of beams, where all others leave a gap. Words a little worse than the best may still improve to better
  /// ones.
  void tryBeams(std::vector<Trial> &best) {
    const int64_t width = std::min(kBeamLetters / 100 * options.effort / trials.letters, kMostWidth);
    if (!canBeam(problem) || width < kLeastWidth || hasToStop())
      return;
    const std::vector<Room> rooms = roomsOf(width);
    for (size_t i = 0; i < rooms.size() && (best.empty() || best.front().time > trials.bound) && !hasToStop(); ++i) {
      const size_t each = size_t(width) / rooms.size();
      trials.candidates.push_back({std::string(rooms[i].way), fmt::format("{} of {} states", rooms[i].way, each),
                                   [&, each](const Problem &given, const Capacities &capacity) {
                                     return beamed(given, capacity,
                                                   {.objective = options.objective,
                                                    .below = worthwhile(best),
                                                    .width = each,
                                                    .mostOfStage = rooms[i].mostOfStage,
                                                    .stop = options.stop});
                                   }});
      if (std::optional<Trial> trial = trials.tryOn(problem, trials.candidates.size() - 1, 2))
        keepShortest(best, std::move(*trial), kFinalists);
    }
  }

  static Time worthwhile(const std::vector<Trial> &best) {
    constexpr Time kWorth = 50; // a part in so many worse
    return best.empty() ? std::numeric_limits<Time>::max() : best.front().time + best.front().time / kWorth;
  }

  std::optional<Words> beamed(const Problem &given, const Capacities &capacity, const BeamOptions &beamOptions) {
    BeamResult found = beam(given, capacity, beamOptions);
    trials.walked += kBeamWork * found.letters;
    return std::move(found.words);
  }

  /// How many microbatches a beam lets wait at each stage.
  struct Room {
    std::string_view way;
    std::vector<int32_t> mostOfStage;
  };

  /// A narrow beam would fill the ranks' memory with first chunks, so that few microbatches get through. So all stages
  /// but each rank's last keep to their shares, or to one more than that.
  std::vector<Room> roomsOf(int64_t width) const {
    const std::vector<int32_t> shares = sharesOf(problem, capacities);
    std::vector<Room> rooms;
    if (!shares.empty()) {
      if (width >= 2 * kLeastWidth)
        rooms.push_back({kMoreBeamWay, sharesAnd(1, shares)});
      rooms.push_back({kShareBeamWay, sharesAnd(0, shares)});
    }
    if (shares.empty() || width >= kFreeWidth)
      rooms.push_back({kBeamWay, {}});
    std::erase_if(rooms, [&](const Room &room) { return !options.has(room.way); });
    return rooms;
  }

  std::vector<int32_t> sharesAnd(int32_t more, std::vector<int32_t> shares) const {
    for (int32_t &most : shares)
      most += more;
    for (const std::vector<int32_t> &mine : problem.stagesByRank())
      shares[size_t(mine.back())] = problem.microbatches;
    return shares;
  }
};

} // namespace

Time boundOf(const Problem &problem, Objective objective) {
  const Bounded bounds = lowerBounds(problem);
  return objective == Objective::Makespan ? bounds.makespan : bounds.span;
}

static Solution singly(const Problem &problem, Objective objective) {
  Words words = oneAtATime(problem);
  const Time time = timeOf(problem, words, objective);
  return {std::move(words), time, boundOf(problem, objective), "one microbatch at a time"};
}

/// Where B makes a context, under a limit: the words of a search in which F holds for it, and those of one in which
/// each W stands right behind its B, so that there is one such context at a time.
static std::optional<Solution> solveBackwardContexts(const Problem &problem, const SolveOptions &options) {
  Solution best = singly(problem, options.objective);
  bool any = false;
  const auto offer = [&](std::optional<Solution> found) {
    if (!found)
      return;
    any = true;
    found->time = timeOf(problem, found->words, options.objective);
    if (found->time < best.time)
      best = std::move(*found);
  };
  const Problem plain = withoutBackwardContexts(problem);
  offer(solve(plain, options));
  Problem joined = problem;
  joined.workspace = plain.workspace;
  joined.backward = BackwardMode::Fused;
  for (Stage &stage : joined.stages)
    stage.backward = stage.backwardInput + stage.backwardWeight;
  std::optional<Solution> together = solve(joined, options);
  if (together)
    for (Word &word : together->words) {
      Word apart;
      for (const Op &op : word) {
        apart.push_back(op);
        if (op.letter != Letter::BW)
          continue;
        apart.back().letter = Letter::B;
        apart.push_back({op.stage, Letter::W, false});
      }
      word = std::move(apart);
    }
  offer(std::move(together));
  if (!any && options.stop.stop_requested())
    return std::nullopt;
  best.bound = boundOf(problem, options.objective);
  return best;
}

/// Where stages are recomputed: the words of a search in which F holds only the input, and B takes the rest.
static std::optional<Solution> solveInputs(const Problem &problem, const SolveOptions &options) {
  Solution best = singly(problem, options.objective);
  std::optional<Solution> found = solve(withoutInputs(problem), options);
  if (!found && options.stop.stop_requested())
    return std::nullopt;
  if (found && found->time < best.time)
    best = std::move(*found);
  best.bound = boundOf(problem, options.objective);
  return best;
}

/// Where backwards may be split or whole: words of three searches, with whole backwards where that pays. In one search
/// all are split, in one all are whole; in one they are split, but a W takes only what it would add to its B in a whole
/// one, which is right for all that are fused in the end.
static std::optional<Solution> solveMixed(const Problem &problem, const SolveOptions &options) {
  Problem split = problem, whole = problem;
  whole.backward = BackwardMode::Fused;
  split.mixed = whole.mixed = false;
  for (Stage &stage : split.stages)
    stage.backward = stage.backwardInput + stage.backwardWeight;
  Problem mostly = split;
  for (size_t s = 0; s != problem.stages.size(); ++s) {
    mostly.stages[s].backwardInput = problem.leastBackwardTime(problem.stages[s]);
    mostly.stages[s].backwardWeight = problem.leastWeightTime(problem.stages[s]);
    mostly.stages[s].backward = mostly.stages[s].backwardInput + mostly.stages[s].backwardWeight;
  }
  std::optional<Solution> best;
  for (const Problem *each : {&split, &whole, &mostly}) {
    std::optional<Solution> found = solve(*each, options);
    if (!found)
      continue;
    found->words = fuseBackwards(problem, found->words, options.objective);
    found->time = timeOf(problem, found->words, options.objective);
    found->bound = boundOf(problem, options.objective);
    if (!best || found->time < best->time)
      best = std::move(found);
  }
  return best;
}

std::optional<Solution> solve(const Problem &problem, const SolveOptions &options) {
  if (options.stop.stop_requested())
    return std::nullopt;
  if (problem.memoryLimit != 0 && problem.memoryLimit < leastLimit(problem))
    return std::nullopt;
  if (problem.recomputes())
    return solveInputs(problem, options);
  if (problem.mixed)
    return solveMixed(problem, options);
  if (problem.memoryLimit != 0 && problem.hasBackwardContexts())
    return solveBackwardContexts(problem, options);
  const auto capacitiesWith = [&](int32_t buffers) {
    Capacities capacities = capacitiesOf(problem, buffers);
    for (Bytes &capacity : capacities)
      capacity = std::max<Bytes>(capacity - options.spare, 0);
    return capacities;
  };
  const Capacities capacities = capacitiesWith(options.buffers);
  const bool hasBuffers = std::any_of(problem.stages.begin(), problem.stages.end(), [](const Stage &stage) {
    return stage.boundary > 0 || stage.gradientBack() > 0;
  });
  if (capacities.empty() || !hasBuffers)
    return Solver(problem, capacities, options, false).run();
  for (int32_t buffers = options.buffers;; buffers = 1) {
    if (std::optional<Solution> solution = Solver(problem, capacitiesWith(buffers), options, true).run())
      return solution;
    if (options.stop.stop_requested())
      return std::nullopt;
    if (buffers <= 1)
      break;
  }
  return singly(problem, options.objective);
}

} // namespace pipec::schedule
