// What local searches share: timing words that change in place, and annealing them.
#pragma once

#include "compiler/schedule/LocalSearch.h"
#include "compiler/schedule/Random.h"
#include "compiler/schedule/Span.h"
#include "compiler/schedule/Walk.h"

#include <cmath>
#include <limits>

namespace pipec::schedule {

constexpr Time kNever = std::numeric_limits<Time>::max();

/// Times words that change in place between calls.
class Timer {
public:
  Timer(const Problem &problem, const Words &words, Objective objective)
      : ranks(problem.ranks), objective(objective), release(size_t(problem.ranks), 0),
        walk(problem, words, objective == Objective::Span) {}

  /// kNever: a cycle, or too long.
  Time time() {
    if (walk.run(release) != Walk::Outcome::Done)
      return kNever;
    if (objective == Objective::Makespan) {
      Time latest = 0;
      for (int32_t r = 0; r < ranks; ++r)
        latest = std::max(latest, walk.end(r));
      return latest;
    }
    return largestCycleMean(step(), [&](const std::vector<Time> &starts, Step &result) {
      walk.run(starts);
      result = step();
    });
  }

  /// When each letter of words that take a time starts, in a step from nothing.
  const std::vector<std::vector<Time>> &starts(const Words &words) {
    begun.resize(words.size());
    for (size_t r = 0; r < words.size(); ++r)
      begun[r].resize(words[r].size());
    walk.run(release, &begun);
    return begun;
  }

private:
  int32_t ranks;
  Objective objective;
  std::vector<Time> release;
  Walk walk;
  std::vector<std::vector<Time>> begun;

  Step step() const {
    Step step;
    for (int32_t r = 0; r < ranks; ++r) {
      step.ends.push_back(walk.end(r));
      step.origins.push_back(walk.origin(r));
    }
    return step;
  }
};

/// Simulated annealing's coin: whether to go on from `time`, at so much of the way (0 to 1). `unit`: about a pass.
inline bool accepts(Random &random, Time current, Time time, Time unit, double progress) {
  if (time <= current)
    return true;
  // Cools in a few rounds, so that it both wanders and settles.
  constexpr double kRounds = 4;
  const double cooled = 1 - (progress * kRounds - std::floor(progress * kRounds));
  const double temperature = 0.25 * double(unit) * cooled * cooled;
  const double worse = double(time - current);
  // Uniform above exp(-worse / temperature), by a rational stand-in for exp that is the same on every machine.
  const double x = worse / std::max(temperature, 1e-9);
  const double chance = 1 / (1 + x + x * x / 2 + x * x * x / 6);
  return double(random.next() >> 11) * 0x1.0p-53 < chance;
}

/// Simulated annealing of words that change in place. `findTurns` looks for where they may get shorter, `propose` makes
/// a change there, if it finds one, and `undo` takes it back. Leaves the best words seen, returns the evaluations
/// taken.
template <typename FindTurns, typename Propose, typename Undo>
int64_t annealed(Words &words, Timer &timer, Random &random, const Annealing &annealing, Time unit,
                 FindTurns &&findTurns, Propose &&propose, Undo &&undo) {
  Time current = timer.time();
  Words best = words;
  Time bestTime = current;
  bool isNew = true;
  int64_t used = 1;
  // A move that changes nothing costs no evaluation, but must not go on for ever either.
  for (int64_t tries = 0;
       used < annealing.evaluations && bestTime > annealing.enough && tries < 8 * annealing.evaluations; ++tries) {
    if (isNew) {
      findTurns();
      isNew = false;
      ++used;
    }
    if (!propose())
      continue;
    const Time time = timer.time();
    ++used;
    if (time == kNever || !accepts(random, current, time, unit, double(used) / double(annealing.evaluations))) {
      undo();
      continue;
    }
    current = time;
    isNew = true;
    if (time < bestTime) {
      bestTime = time;
      best = words;
    }
  }
  words = std::move(best);
  return used;
}

} // namespace pipec::schedule
