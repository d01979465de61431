// What pieces of jobs do to a step.
//
// Where nothing chooses by time, all times are longest paths. A piece begins only while the heads of all queues of its
// device wait, one at a time, so a resume comes at most a piece with its overhead later than it could, and nothing else
// comes late. A path over k steps is then longer by at most the pieces of the resumes on it, in any timing; the most of
// all paths, a step, is the span of the same plan in which a resume takes a piece and all else takes nothing. That is
// the *delay*. In this plan's own times no piece that is chosen delays anything: windows are no longer than its waits.
#pragma once

#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"

#include <functional>

namespace pipec::simulate {

struct Resume;

/// The delay of a variant that runs to its end; 0 without windows.
Status delay(const plan::Variant &variant, plan::Time &delay);

/// How many resumes of the ranks of a job lie one behind the other, a step, in millionths: with jobs of one length of
/// pieces the delay is this many of them.
Status resumes(const plan::Variant &variant, int32_t job, int64_t &millionths);

/// The span of a variant in which a resume takes what `cost` says of it, and all else takes no time.
Status spanOfResumes(const plan::Variant &variant, const std::function<plan::Time(const Resume &)> &cost,
                     plan::Time &span);

/// Whether nothing in a variant chooses by time: no process has two device queues, whose heads take turns, and ports
/// are not shared.
bool delayHoldsInAnyTiming(const plan::Variant &variant);

/// Rule P56.
Status proveDelay(const plan::Variant &variant);

} // namespace pipec::simulate
