// Orders for torch.distributed.pipelining: its compute-only CSV, which _PipelineScheduleRuntime._load_csv and
// torchtitan's pipeline_parallel_schedule_csv take (all releases from 2.8 on).
#pragma once

#include "runtime/plan/Plan.h"

#include <string>

namespace pipec::emit {

/// A row a rank, in issue order of its compute queue: `<stage>F<mb>`, B (whole backward), I and W (split). No header,
/// no empty cell. Optimizer steps are not part of the format.
std::string torchComputeCsv(const plan::Variant &variant);

} // namespace pipec::emit
