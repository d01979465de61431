// How emulated work and wires keep time. Carry: from deadline to deadline, as the simulator counts, so that a run shows
// whether the order is right; lateness can only add. Naive: from when the work really starts, so that a run shows what
// the runtime itself costs. Real: nothing is emulated, work and wires take the time that they take.
#pragma once

#include "runtime/plan/Plan.h"

namespace pipec::runtime {

enum class Pace { Carry, Naive, Real };

/// Emulated transfers carry no more than this; real ones are whole.
inline constexpr plan::Bytes kEmulatedPayload = 64 * 1024;
inline plan::Bytes payloadLimit(Pace pace) { return pace == Pace::Real ? INT64_MAX : kEmulatedPayload; }

} // namespace pipec::runtime
