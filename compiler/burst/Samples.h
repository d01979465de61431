// Where samples are: widths, local batches, and what changes its rank between two widths. Sample i is on member i mod
// width of the first ranks. Source: DeepPool, arXiv 2112.10065, which splits by intervals and leaves samples where they
// are as far as it can; the counts are the same where widths are powers of two that divide the batch.
#pragma once

#include "compiler/burst/Model.h"
#include "runtime/plan/Samples.h"

namespace pipec::burst {

using schedule::timeOf;

using plan::samplesOf;
/// Of member 0, which has most.
inline int64_t localBatch(int64_t batch, int32_t width) { return samplesOf(batch, width, 0); }

/// The widths that a layer may have, ascending; never empty.
Widths widthsOf(const Problem &problem);

/// Most samples that come to one rank, or that leave one, between two widths; those that stay count for neither. The
/// same in either direction. Widths no greater than the batch. O(1).
int64_t movedSamples(int64_t batch, int32_t from, int32_t to);

} // namespace pipec::burst
