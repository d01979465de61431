// Policies that ask a coordinator at run time what goes next. The order follows from when gradients become ready.
#pragma once

#include "compiler/schedule/exchange/Bundles.h"

namespace pipec::schedule {

/// Horovod: in every cycle (or round, if that is longer) all ready gradients go in all-reduces of at most `bundle`
/// bytes.
std::vector<Collective> horovodQueue(const ExchangeInput &input, const PolicyParameters &parameters, size_t rank);

/// ByteScheduler: tensors are cut into pieces of at most `piece` bytes. Of the ready pieces, the one that the next
/// forward needs first goes next, while fewer than `credit` bytes are in flight. Each piece costs a round.
std::vector<Collective> byteSchedulerQueue(const ExchangeInput &input, const PolicyParameters &parameters, size_t rank);

} // namespace pipec::schedule
