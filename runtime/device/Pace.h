// How emulated work and wires keep time. Carry: from deadline to deadline, as the simulator counts, so that a run shows
// whether the order is right; lateness can only add. Naive: from when the work really starts, so that a run shows what
// the runtime itself costs.
#pragma once

namespace pipec::runtime {

enum class Pace { Carry, Naive };

} // namespace pipec::runtime
