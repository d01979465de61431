// The evaluation of a variant runs its forwards alone, for the same number of microbatches, on the same ranks, queues
// and transfer buffers. It follows from the variant, so a plan does not store it.
#pragma once

#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"

namespace pipec::plan {

/// Makes the evaluation of a variant that keeps the rules, as a variant without certificate whose step is one round of
/// an evaluation. Its queues have the variant's numbers. Its rings have at most as many slots, of the same size. Passes
/// hold no memory after their end. Of the forwards that could run, each rank runs the one that is furthest through the
/// model (if all passes took the same time), so that few microbatches are in flight. The programs are not rolled into
/// loops. Rounds may follow each other as steps do. Code::Check: a variant with stages on several ranks has no
/// evaluation. O(forwards).
Status evaluationOf(const Variant &variant, Variant &evaluation);

/// Whether runs of a plan may evaluate. Code::Check: as evaluationOf().
Status mayEvaluate(const Plan &plan);

} // namespace pipec::plan
