// Refilling both ends of a repeated block.
#pragma once

#include "compiler/schedule/model/Block.h"

namespace pipec::schedule {

/// The words of a repeated block with warm-up and cool-down refilled (Controllable Memory, section 3.2): where a rank
/// waits, passes that fit whole move forward, as long as no rank holds more than the fullest one does already. Times
/// are no longer, the largest peak no higher.
Words refill(const Problem &problem, const Block &block);

} // namespace pipec::schedule
