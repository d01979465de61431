// Simulated annealing of words that change in place, whatever the moves are.
#pragma once

#include "compiler/schedule/evaluate/Timer.h"
#include "compiler/schedule/improve/LocalSearch.h"
#include "compiler/schedule/model/Random.h"

#include <cmath>

namespace pipec::schedule {

/// Whether simulated annealing goes on from words that take `time`, now that they take `current`. `progress`: how much
/// of the annealing is over, 0 to 1. `unit`: about the length of a pass.
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

/// Simulated annealing of words that change in place. `findTurns` looks for places where a change may shorten the
/// words. `propose` changes the words at one of these, or returns false. `undo` takes that change back. Leaves the best
/// words seen and returns the evaluations taken.
template <typename FindTurns, typename Propose, typename Undo>
int64_t annealed(Words &words, Timer &timer, Random &random, const Annealing &annealing, Time unit,
                 FindTurns &&findTurns, Propose &&propose, Undo &&undo) {
  Time current = timer.time();
  Words best = words;
  Time bestTime = current;
  bool isNew = true;
  int64_t used = 1;
  // A move that changes nothing costs no evaluation, but must not go on for ever either.
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
