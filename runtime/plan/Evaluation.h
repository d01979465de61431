// The evaluation of a variant: its forwards alone, of as many microbatches, on the same ranks, queues and transfer
// buffers. It follows from the variant, so a plan does not store it.
#pragma once

#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"

namespace pipec::plan {

/// Makes the evaluation of a variant that keeps the rules, as a variant without certificate whose step is a round of an
/// evaluation. Its queues have the numbers of the variant's; its rings have no more slots, of the same size. Passes
/// hold nothing once they have ended. Each rank runs the forward that is furthest through the model among those that
/// could run (all passes taken to be equally long), so that few microbatches are under way at once. The programs are
/// not rolled. Rounds may follow each other as steps do. Code::Check: a variant whose stages are on several ranks has
/// none. O(forwards).
Status evaluationOf(const Variant &variant, Variant &evaluation);

/// Whether runs of a plan may evaluate. Code::Check: as evaluationOf().
Status mayEvaluate(const Plan &plan);

} // namespace pipec::plan
