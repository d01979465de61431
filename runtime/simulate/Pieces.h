// How much pieces of background jobs delay a step.
//
// If nothing in a plan is chosen by time, all times are longest paths. A piece begins only while the heads of all
// queues of its device wait, and pieces run one at a time. So a resume is late by at most one piece with its overhead,
// and nothing else is late. In any timing a path over k steps is then longer by at most the pieces of the resumes on
// it. The most over all paths, per step, is the span of the same plan if a resume takes a piece and everything else
// takes no time. That span is the *delay*. In the plan's own times no piece delays anything, since windows are no
// longer than the plan's waits.
#pragma once

#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"

#include <functional>

namespace pipec::simulate {

struct Resume;

/// The delay of a variant that runs to its end; 0 without windows.
Status delay(const plan::Variant &variant, plan::Time &delay);

/// The most resumes of the ranks of a job on one path, per step, in millionths. If all pieces have one length, the
/// delay is this many pieces.
Status resumes(const plan::Variant &variant, int32_t job, int64_t &millionths);

/// The span of a variant if a resume takes `cost` of it and everything else takes no time.
Status spanOfResumes(const plan::Variant &variant, const std::function<plan::Time(const Resume &)> &cost,
                     plan::Time &span);

/// Whether nothing in a variant chooses by time: no process has two device queues, whose heads take turns, and ports
/// are not shared.
bool delayHoldsInAnyTiming(const plan::Variant &variant);

/// Checks rule P56.
Status proveDelay(const plan::Variant &variant);

} // namespace pipec::simulate
