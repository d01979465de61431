// What a pipeline op says of background jobs.
#pragma once

#include "compiler/jobs/Jobs.h"
#include "dialects/pipe/Pipe.h"

#include <optional>

namespace pipec {

/// Nothing where it has none. What its jobs' libraries are handed is not said.
std::optional<jobs::Jobs> jobsOf(pipe::PipelineOp pipeline);
pipe::JobsAttr attributeOf(const jobs::Jobs &jobs, mlir::MLIRContext &context);

} // namespace pipec
