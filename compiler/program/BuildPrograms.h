// Makes programs from words. A word is a rank's compute order (compiler/schedule/model/Problem.h); a program is the
// rank's instructions in issue order. Only this code makes programs from words.
#pragma once

#include "compiler/program/ProgramSet.h"

namespace pipec {

/// The place of each pass of a stage in the source: the place of its op in the pipeline's block. Instructions, and
/// errors about instructions, carry these places.
struct PassPlaces {
  explicit PassPlaces(pipe::PipelineOp pipeline);
  /// Gives all passes the same place.
  PassPlaces(mlir::Location place, const schedule::Problem &problem);

  mlir::Location whole; // of collectives, optimizer steps, and passes without a place of their own
  std::vector<std::array<std::optional<mlir::Location>, schedule::kLetters>> passes; // by stage and letter
};

struct BuildOptions {
  pipe::Communicator communicator = pipe::Communicator::PerEdge;
  bool fillsWeights = false; // whether W run on a separate queue whenever the compute queue waits
};

/// Makes a program for each rank: the passes of its word, its collectives, and the optimizer steps of its stages.
/// Transfers are not among them yet. Needs schedule::verify(problem, words) to have passed. O(letters).
ProgramSet buildPrograms(const schedule::Problem &problem, const schedule::Words &words, const PassPlaces &places,
                         const BuildOptions &options);

/// Sets the times of all operations to those of another problem with the same passes on the same ranks.
void setTimes(const schedule::Problem &problem, plan::Variant &variant);

/// The problem's shared weights, as plans store them.
std::vector<plan::SharedWeight> sharedOf(const schedule::Problem &problem);

/// Adds a transfer for each tensor that one rank makes and another takes. The send and the receive are appended to
/// their ranks' instructions; reorder() later puts them in place. An error if the problem has no such pass, if a pass
/// occurs twice, or if no pass takes a tensor that another pass makes.
mlir::LogicalResult addTransfers(const schedule::Problem &problem, ProgramSet &set);

} // namespace pipec
