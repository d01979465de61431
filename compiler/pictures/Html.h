// A plan as one page that needs nothing else: no network, no other file. How it looks and what it does stands in
// html/*.html, *.css and *.js, which the build puts into the program; this makes the data that they show.
#pragma once

#include "compiler/emit/ScheduleReport.h"
#include "compiler/pictures/Picture.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"
#include "runtime/trace/Trace.h"

#include <string>
#include <vector>

namespace pipec::emit {

/// The page of every variant's first step, or, with a real run, of each of its steps beside the same step
/// of the variant that it ran, simulated. `network`: under which to simulate. A page over 8,388,608 boxes and transfers
/// is an error (Code::Input), except that of a run, which holds the steps that fit; `note` says so.
Status html(const plan::Plan &plan, const PlanReport &figures, const trace::Run &run, std::string &text,
            std::string &note, const Network &network = {});

} // namespace pipec::emit
