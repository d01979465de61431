// Converts the pipeline op's background jobs to structs and back.
#pragma once

#include "compiler/jobs/Jobs.h"
#include "dialects/pipe/Pipe.h"

#include <optional>

namespace pipec {

/// The pipeline's background jobs; none if it has none. Arguments of the jobs' libraries are not included.
std::optional<jobs::Jobs> jobsOf(pipe::PipelineOp pipeline);
pipe::JobsAttr attributeOf(const jobs::Jobs &jobs, mlir::MLIRContext &context);

} // namespace pipec
