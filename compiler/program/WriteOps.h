// The ops of programs that stand in records alone.
#pragma once

#include "compiler/program/Streams.h"

namespace pipec {

/// Writes into each program the ops of its records, as streamWords() leaves them: no transfers yet.
void writeOps(pipe::PipelineOp pipeline, const schedule::Problem &problem, Streams &streams);

} // namespace pipec
