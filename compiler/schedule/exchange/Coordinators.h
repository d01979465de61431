// Policies that ask a coordinator at run time what goes next. Their order follows from when gradients are ready.
#pragma once

#include "compiler/schedule/exchange/Bundles.h"

namespace pipec::schedule {

/// Horovod: every cycle, or round if that is longer, what is ready goes in all-reduces of at most `bundle` bytes.
std::vector<Collective> horovodQueue(const ExchangeInput &input, const PolicyParameters &parameters, size_t rank);

/// ByteScheduler: tensors in pieces of at most `piece` bytes. Of those that are ready, the one goes next that the next
/// forward needs first, while less than `credit` bytes are under way. Each costs a round.
std::vector<Collective> byteSchedulerQueue(const ExchangeInput &input, const PolicyParameters &parameters, size_t rank);

} // namespace pipec::schedule
