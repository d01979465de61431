// OwnTime measures a shard's own time in a library's call: all but the calls between shards. A scenario may slow a
// shard down: then the shard goes on computing until it has taken as long as the scenario says.
#pragma once

#include "runtime/device/Clock.h"
#include "runtime/device/Failure.h"
#include "runtime/plan/Place.h"
#include "runtime/simulate/Scenario.h"

namespace pipec::runtime {

class OwnTime {
public:
  /// All arguments must outlive this object. `scenario`: null: nothing is slow.
  OwnTime(const plan::Place &place, const Clock &clock, const Failure &failure, const simulate::Scenario *scenario)
      : place(place), clock(clock), failure(failure), scenario(scenario) {}

  /// To call when the shard begins to compute, within a call of the library.
  void begin() {
    total = 0;
    resume();
  }
  /// To call when the shard has computed. Goes on computing if a scenario slows the shard down.
  void pause() {
    const plan::Time took = clock.now() - begun;
    if (scenario) {
      const plan::Time until = scenario->ownEnd(place.rank, place.shard, plan::Own::kWhole, begun, took);
      while (clock.now() < until && !failure.raised())
        ;
    }
    total += clock.now() - begun;
  }
  /// To call when the shard computes again, after a call between shards.
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
