// Orders to programs: the one place in which a rank's word becomes instructions.
#pragma once

#include "compiler/program/ProgramSet.h"

namespace pipec {

/// Of a pass of a stage: where the design level states it.
struct PassPlaces {
  explicit PassPlaces(pipe::PipelineOp pipeline);
  /// All at one place.
  PassPlaces(mlir::Location place, const schedule::Problem &problem);

  mlir::Location whole;                                             // of all else
  std::vector<std::array<std::optional<mlir::Location>, 4>> passes; // by stage and letter
};

struct BuildOptions {
  pipe::Communicator communicator = pipe::Communicator::PerEdge;
  bool fillsWeights = false; // W on a queue of their own
};

/// Each rank's word, then its collectives and its stages' optimizer steps; no transfers yet. `words` are right
/// (schedule::verify). O(letters).
ProgramSet buildPrograms(const schedule::Problem &problem, const schedule::Words &words, const PassPlaces &places,
                         const BuildOptions &options);

/// A transfer for each tensor that a pass on another rank takes, behind all else of its ranks. An error where a pass is
/// none of the problem's or stands twice, or a tensor that no pass takes is made.
mlir::LogicalResult addTransfers(const schedule::Problem &problem, ProgramSet &set);

} // namespace pipec
