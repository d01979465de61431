// How much of a library's call is a shard's own: all but the calls between shards. A scenario may slow a shard: then
// who has computed for a while computes on, until it has taken as long as the scenario says.
#pragma once

#include "runtime/device/Clock.h"
#include "runtime/device/Failure.h"
#include "runtime/plan/Place.h"
#include "runtime/simulate/Scenario.h"

namespace pipec::runtime {

class OwnTime {
public:
  /// All outlive it. `scenario`: null: nothing is slow.
  OwnTime(const plan::Place &place, const Clock &clock, const Failure &failure, const simulate::Scenario *scenario)
      : place(place), clock(clock), failure(failure), scenario(scenario) {}

  /// Begins to compute, within a call of the library.
  void begin() {
    total = 0;
    resume();
  }
  /// Has computed, and computes on where it is slow.
  void pause() {
    const plan::Time took = clock.now() - begun;
    if (scenario) {
      const plan::Time until = scenario->ownEnd(place.rank, place.shard, plan::Own::kWhole, begun, took);
      while (clock.now() < until && !failure.raised())
        ;
    }
    total += clock.now() - begun;
  }
  /// Computes again, after a call between shards.
  void resume() { begun = clock.now(); }
  /// From begin() to the last pause(), without the calls between shards.
  plan::Time own() const { return total; }

private:
  const plan::Place place;
  const Clock &clock;
  const Failure &failure;
  const simulate::Scenario *const scenario;
  plan::Time begun = 0, total = 0;
};

} // namespace pipec::runtime
