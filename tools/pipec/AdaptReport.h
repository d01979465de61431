// pipec report --adapt: a run whose variants are chosen step by step, in virtual time.
#pragma once

#include "compiler/emit/ScheduleReport.h"
#include "tools/pipec/Commands.h"

namespace pipec {

/// Runs the plan's variants as the decision maker chooses, as tuners do and as an oracle does, and prints the report
/// with it; the exit code.
int reportAdapted(const CommandOptions &options, const plan::Plan &plan, const simulate::Scenario &network,
                  emit::PlanReport &report);

} // namespace pipec
