// Reading plans, and the figures of read or compiled plans.
#pragma once

#include "compiler/driver/Compile.h"
#include "compiler/emit/ScheduleReport.h"

#include <string>
#include <vector>

namespace pipec {

/// Loads a plan, checked by every rule, and its bytes.
Status loadPlan(const std::string &path, plan::Plan &plan, std::vector<uint8_t> &bytes);
/// The same, and simulates the plan.
Status loadChecked(const std::string &path, plan::Plan &plan);

/// Reduces a plan's variants to the evaluation of the first variant, rolled, with its times
/// (runtime/plan/Evaluation.h).
Status keepEvaluation(plan::Plan &plan);

Status figuresOf(const Compiled &compiled, emit::PlanReport &report);

} // namespace pipec
