// Refills the warm-up and the cool-down of a repeated block.
#pragma once

#include "compiler/schedule/model/Block.h"

namespace pipec::schedule {

/// The words of a repeated block with warm-up and cool-down refilled (Controllable Memory, section 3.2). While a rank
/// waits, later passes that fit completely move forward, as long as no rank holds more than the block's largest peak.
/// No time gets longer, and the largest peak does not grow.
Words refill(const Problem &problem, const Block &block);

} // namespace pipec::schedule
