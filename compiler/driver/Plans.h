// Plans that are read, and the figures of plans, read or compiled.
#pragma once

#include "compiler/driver/Compile.h"
#include "compiler/emit/ScheduleReport.h"

#include <string>
#include <vector>

namespace pipec {

/// Loads a plan with every rule; its bytes too.
Status loadPlan(const std::string &path, plan::Plan &plan, std::vector<uint8_t> &bytes);
/// The same, and the walk.
Status loadChecked(const std::string &path, plan::Plan &plan);

/// Leaves of a plan's variants the evaluation of the first, rolled, with its times (runtime/plan/Evaluation.h).
Status keepEvaluation(plan::Plan &plan);

Status figuresOf(const Compiled &compiled, emit::PlanReport &report);

} // namespace pipec
