// The first question is whether any order is better than the best one known. Mostly there is none, which is the proof.
// After a question that runs out of time comes an easier one, nearer to the bound.
#include "compiler/schedule/exact/Exact.h"

#include "compiler/schedule/bounds/Bounds.h"
#include "compiler/schedule/construct/Beam.h"
#include "compiler/schedule/evaluate/Evaluate.h"
#include "compiler/schedule/overlap/Pairing.h"
#include "compiler/schedule/search/Search.h"

#include <algorithm>
#include <chrono>

namespace pipec::schedule {

namespace {

/// What is known of a problem.
struct Known {
  const Problem *proof = nullptr; // what the solver is asked about
  Capacities least;               // of the proof, with one of each transfer buffer
  Capacities capacities;          // of the orders, with two
  Time bound = 0;                 // proven
  int32_t closeness = 0; // how often a question ran out of time: the next is nearer to the bound by half each time
  bool tooLarge = false;
  bool isBeamed = false; // all its states were looked at, or were too many
};

class Closer {
public:
  Closer(const std::vector<ExactProblem> &problems, const ExactOptions &options)
      : problems(problems), options(options) {}

  std::optional<Exact> run() {
    begin();
    if (known.empty())
      return std::nullopt;
    while (true) {
      const size_t i = next();
      best.bound = plan::LeastTime::proven(std::min(known[i].bound, best.time));
      best.tooLarge = known[i].tooLarge;
      const int64_t left = options.milliseconds - passed();
      if (best.bound.isReachedBy(best.time) || left <= 0 || options.stop.stop_requested())
        return std::move(best);
      if (!known[i].isBeamed) {
        beamAll(i);
        continue;
      }
      if (known[i].tooLarge || known[i].closeness > kNearest) {
        searchOn();
        return std::move(best);
      }
      ask(i, left);
    }
  }

private:
  static constexpr int32_t kNearest = 12;
  const std::vector<ExactProblem> &problems;
  const ExactOptions &options;
  const std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  std::vector<Known> known;
  Exact best;

  const Problem &ordersOf(size_t i) const { return problems[i].orders; }

  int64_t passed() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start).count();
  }

  void begin() {
    bool found = options.start.has_value();
    if (found)
      best = {.problem = options.start->problem,
              .words = options.start->words,
              .time = timeOf(ordersOf(options.start->problem), options.start->words, options.objective)};
    for (size_t i = 0; i < problems.size() && !options.start; ++i) {
      const std::optional<Solution> solution =
          solvePaired(ordersOf(i), {.objective = options.objective, .stop = options.stop});
      if (!solution)
        continue;
      if (!found || solution->time < best.time) {
        best.problem = i;
        best.words = solution->words;
        best.time = solution->time;
      }
      found = true;
    }
    if (found)
      for (const ExactProblem &problem : problems)
        known.push_back(knownOf(problem));
  }

  /// Begins with the proof that says most.
  Known knownOf(const ExactProblem &problem) const {
    Known made;
    for (const LeastProblem &each : problem.proofs)
      if (const Time bound = leastTimes(each).by(options.objective).picoseconds(); !made.proof || bound > made.bound) {
        made.proof = &each.problem();
        made.bound = bound;
      }
    made.least = capacitiesOf(*made.proof, 1);
    made.capacities = capacitiesOf(problem.orders);
    const Problem &orders = problem.orders;
    made.tooLarge = hasPairs(orders) || orders.mixed || orders.hasBackwardContexts() || orders.recomputes() ||
                    made.proof->cuts; // not asked about
    return made;
  }

  /// If nothing more can be proven, lets the search go on, with twice the effort each time, while there is time for
  /// that.
  void searchOn() {
    int64_t last = 0;
    for (int64_t effort = 200; !best.bound.isReachedBy(best.time) && passed() + 2 * last < options.milliseconds &&
                               !options.stop.stop_requested();
         effort *= 2) {
      const int64_t before = passed();
      if (options.said)
        options.said(best, best.time - 1);
      for (size_t i = 0; i < problems.size(); ++i) {
        std::optional<Solution> solution =
            solvePaired(ordersOf(i), {.objective = options.objective, .effort = effort, .stop = options.stop});
        if (!solution || solution->time >= best.time)
          continue;
        best.problem = i;
        best.words = std::move(solution->words);
        best.time = solution->time;
      }
      last = passed() - before;
    }
  }

  /// The problem whose bound is the least: the bound of all problems together.
  size_t next() const {
    return size_t(
        std::min_element(known.begin(), known.end(), [](const Known &a, const Known &b) { return a.bound < b.bound; }) -
        known.begin());
  }

  /// Tries to prove by a beam that drops no state: quick where few states of all ranks could still come to less.
  void beamAll(size_t i) {
    constexpr size_t kStates = 20'000;
    Known &it = known[i];
    it.isBeamed = true;
    if (options.objective != Objective::Makespan || it.tooLarge || !canBeam(*it.proof))
      return;
    BeamResult found = beam(*it.proof, it.least,
                            {.objective = options.objective,
                             .below = best.time,
                             .width = kStates,
                             .allOrNone = true,
                             .stop = options.stop});
    if (found.words && isBetter(i, best.time - 1, *found.words)) {
      best.problem = i;
      best.time = timeOf(ordersOf(i), *found.words, options.objective);
      best.words = std::move(*found.words);
    } else if (found.words) { // only with fewer buffers, or with the proof's times
      return;
    }
    if (found.exhaustive)
      it.bound = std::max(it.bound, best.time);
  }

  void ask(size_t i, int64_t left) {
    Known &it = known[i];
    // The last picosecond first; then a half, a quarter, … of the way.
    const Time gap = best.time - 1 - it.bound;
    const Time target = it.bound + (it.closeness == 0 ? gap : gap >> it.closeness);
    if (options.said)
      options.said(best, target);
    const int64_t most = std::max<int64_t>(it.closeness == 0 ? left / 2 : left / 3, 100);
    Words words;
    Decided decided = asked(i, it.least, target, most, words);
    if (decided == Decided::No) {
      it.bound = target + 1;
      return;
    }
    it.tooLarge = decided == Decided::TooLarge;
    if (decided == Decided::Yes && !isBetter(i, target, words)) // only with fewer buffers, or with the proof's times
      decided = asked(i, it.capacities, target, most, words);
    if (decided != Decided::Yes || !isBetter(i, target, words)) {
      ++it.closeness;
      return;
    }
    best.problem = i;
    best.time = timeOf(ordersOf(i), words, options.objective);
    best.words = std::move(words);
    it.closeness = 0;
  }

  Decided asked(size_t i, const Capacities &capacities, Time target, int64_t milliseconds, Words &words) {
    ++best.questions;
    return decide(
        *known[i].proof, capacities,
        {.objective = options.objective, .target = target, .milliseconds = milliseconds, .stop = options.stop}, words);
  }

  /// The solver is not trusted: its words are verified and timed here.
  bool isBetter(size_t i, Time target, const Words &words) const {
    if (!verify(ordersOf(i), words).empty() || timeOf(ordersOf(i), words, options.objective) > target)
      return false;
    for (size_t r = 0; r < known[i].capacities.size(); ++r)
      if (peakOf(ordersOf(i), words[r]) > known[i].capacities[r])
        return false;
    return true;
  }
};

} // namespace

std::optional<Exact> exact(const std::vector<ExactProblem> &problems, const ExactOptions &options) {
  return Closer(problems, options).run();
}

} // namespace pipec::schedule
