// Words to programs as passes walk them: records alone. Ops are written from them where somebody reads ops
// (WriteOps.h).
#pragma once

#include "compiler/program/Streams.h"

namespace pipec {

/// Fills in the streams of programs that have no ops: each rank's word, then its all-reduces and optimizer steps.
void streamWords(pipe::PipelineOp pipeline, const schedule::Problem &problem, const schedule::Words &words,
                 Streams &streams);

} // namespace pipec
