// When emulated work begins, by the pace that a run keeps (Pace.h). Devices, transports and stages of every kind ask
// the same clock, so that the deadlines which one carries on are those that the next one goes by.
#pragma once

#include "runtime/device/Clock.h"
#include "runtime/device/Pace.h"

#include <algorithm>

namespace pipec::runtime {

class PaceClock {
public:
  using Time = plan::Time;

  /// `clock` outlives it.
  PaceClock(const Clock &clock, Pace pace) : clock(clock), pace(pace) {}

  /// When what could begin at `ready` does: carried, at that moment, however late word of it came; else now.
  Time begin(Time ready) const { return pace == Pace::Carry ? ready : clock.now(); }

  /// How long work of a lower queue that takes `cost` is held. Carried times are those of the simulator, where what is
  /// known at an instant is known at once; here word of it takes a while to come, and a higher queue's head that was
  /// ready by then may still be under way. The deadline of the work stays, so that what is held ends no later.
  Time grace(Time cost) const {
    constexpr Time kMost = 2'000'000'000; // 2 ms, far more than a wake takes on a machine that is not overloaded
    return pace == Pace::Carry ? std::min(cost / 4, kMost) : 0;
  }

private:
  const Clock &clock;
  const Pace pace;
};

} // namespace pipec::runtime
