// `pipec report --adapt`: simulates a run in which the variant of each step is chosen.
#pragma once

#include "compiler/emit/ScheduleReport.h"
#include "tools/pipec/Commands.h"

namespace pipec {

/// Runs the plan's variants as the decision maker, tuners and an oracle choose, and prints the report with these runs.
/// Returns the exit code.
int reportAdapted(const CommandOptions &options, const plan::Plan &plan, const simulate::Scenario &network,
                  emit::PlanReport &report);

} // namespace pipec
