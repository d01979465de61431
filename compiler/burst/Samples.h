// Where samples are: widths, local batches, and the samples that change ranks between two widths. Sample i is on member
// i mod width of the first ranks. Source: DeepPool, arXiv 2112.10065, which splits by intervals and leaves samples in
// place as far as it can; the counts are equal if widths are powers of two that divide the batch.
#pragma once

#include "compiler/burst/Model.h"
#include "runtime/plan/Samples.h"

namespace pipec::burst {

using schedule::timeOf;

using plan::samplesOf;
/// The local batch of member 0, which has the most samples.
inline int64_t localBatch(int64_t batch, int32_t width) { return samplesOf(batch, width, 0); }

/// The widths that a layer may have, ascending; never empty.
Widths widthsOf(const Problem &problem);

/// The most samples that come to one rank, or leave one, between two widths. Samples that stay do not count. The number
/// is the same in both directions. Widths must be at most the batch. O(1).
int64_t movedSamples(int64_t batch, int32_t from, int32_t to);

} // namespace pipec::burst
