// When emulated work begins, by the pace of the run (Pace.h). Devices, transports and stages of every kind ask this
// same clock. So where deadlines are carried on from one piece of work to the next, all carry on the same ones.
#pragma once

#include "runtime/device/Clock.h"
#include "runtime/device/Pace.h"

#include <algorithm>

namespace pipec::runtime {

class PaceClock {
public:
  using Time = plan::Time;

  /// `clock` outlives this object.
  PaceClock(const Clock &clock, Pace pace) : clock(clock), pace(pace) {}

  /// When work begins that could begin at `ready`. Under Pace::Carry that is `ready`, however late word of it came;
  /// else now.
  Time begin(Time ready) const { return pace == Pace::Carry ? ready : clock.now(); }

  /// How long to hold back work that takes `cost` on a queue of lower priority. Under Pace::Carry the order must be the
  /// simulator's, in which a queue knows at once what has become ready. A real queue learns this a little later, so the
  /// head of a queue of higher priority may have been ready first and be seen later. The deadline of the held work does
  /// not change, so it ends no later.
  Time grace(Time cost) const {
    constexpr Time kMost = 2'000'000'000; // 2 ms, far more than it takes to wake a thread if the machine has room
    return pace == Pace::Carry ? std::min(cost / 4, kMost) : 0;
  }

private:
  const Clock &clock;
  const Pace pace;
};

} // namespace pipec::runtime
