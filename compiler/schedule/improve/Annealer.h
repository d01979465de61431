// Simulated annealing of words that change in place, for any kind of move.
#pragma once

#include "compiler/schedule/evaluate/Timer.h"
#include "compiler/schedule/improve/LocalSearch.h"
#include "compiler/schedule/model/Random.h"

#include <cmath>

namespace pipec::schedule {

/// Whether simulated annealing accepts words that take `time`, in place of words that take `current`. `progress`: the
/// completed fraction of the annealing, 0 to 1. `unit`: roughly the length of a pass.
inline bool accepts(Random &random, Time current, Time time, Time unit, double progress) {
  if (time <= current)
    return true;
  // Cools in a few rounds, to alternate between exploring and settling.
  constexpr double kRounds = 4;
  const double cooled = 1 - (progress * kRounds - std::floor(progress * kRounds));
  const double temperature = 0.25 * double(unit) * cooled * cooled;
  const double worse = double(time - current);
  // The usual acceptance probability exp(-worse / temperature), by a rational approximation of exp that is the same on
  // every machine.
  const double x = worse / std::max(temperature, 1e-9);
  const double chance = 1 / (1 + x + x * x / 2 + x * x * x / 6);
  return double(random.next() >> 11) * 0x1.0p-53 < chance;
}

/// Simulated annealing of words that change in place. `findTurns` looks for places where a change may shorten the
/// words. `propose` changes the words at one of these places, or returns false. `undo` reverts that change. Leaves the
/// best words found in `words` and returns the evaluations used.
template <typename FindTurns, typename Propose, typename Undo>
int64_t annealed(Words &words, Timer &timer, Random &random, const Annealing &annealing, Time unit,
                 FindTurns &&findTurns, Propose &&propose, Undo &&undo) {
  Time current = timer.time();
  Words best = words;
  Time bestTime = current;
  bool isNew = true;
  int64_t used = 1;
  // A failed proposal costs no evaluation, so the number of tries is limited too.
  for (int64_t tries = 0; used < annealing.evaluations && bestTime > annealing.enough &&
                          tries < 8 * annealing.evaluations && !annealing.stop.stop_requested();
       ++tries) {
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
