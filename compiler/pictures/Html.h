// A plan as one self-contained page: no network, no other file. Appearance and behaviour are in html/*.html, *.css and
// *.js, which the build embeds into the program; this code makes their data.
#pragma once

#include "compiler/emit/ScheduleReport.h"
#include "compiler/pictures/Picture.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"
#include "runtime/trace/Trace.h"

#include <string>
#include <vector>

namespace pipec::emit {

/// Makes the page of every variant's first step or, for a real run, of each of its steps beside the same simulated step
/// of its variant. `network`: used by the simulation. A page of more than 8,388,608 boxes and transfers is an error
/// (Code::Input); the page of a run has the steps that fit instead, and `note` says so.
Status html(const plan::Plan &plan, const PlanReport &figures, const trace::Run &run, std::string &text,
            std::string &note, const Network &network = {});

} // namespace pipec::emit
