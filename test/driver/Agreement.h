// Random pipelines through all passes, and what judges them: the plan's rules, the simulator, the evaluator, live
// ranges counted here, and the plan's file.
#pragma once

#include "compiler/passes/Lowered.h"
#include "compiler/passes/Passes.h"
#include "compiler/schedule/evaluate/Evaluate.h"
#include "test/Rounds.h"
#include "test/driver/RandomPipeline.h"

#include <gtest/gtest.h>
#include <optional>

namespace pipec::test {

/// What the passes made of a pipeline.
struct Made {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  pipe::PipelineOp pipeline;
  std::vector<pipe::ProgramOp> programs; // the text of `set`
  ProgramSet set;
  std::optional<Lowered> lowered;
  schedule::Words words;
  plan::Variant ideal; // the programs as crossCheck() takes them
  std::string errors;  // of passes; all else is empty then
  std::string places;  // of the errors
};

class Agreement : public testing::Test {
protected:
  Agreement();
  Made make(const RandomPipeline &random);
  /// The programs after all passes, each of which began with the text that the one before it ended with; the errors
  /// where one failed.
  std::string passByPass(const RandomPipeline &random);
  static std::string textOf(mlir::ModuleOp module);
  void judge(const RandomPipeline &random, Made &made);
  /// The file holds the same plan, and the plan, rolled as it may be, runs as the programs did.
  void judgeFile(const RandomPipeline &random, Made &made);

  int hoisted = 0; // how often judge() found R that had moved

private:
  void judgeHoisted(const RandomPipeline &random, const Made &made, const schedule::Words &all,
                    const schedule::Evaluation &fast);

protected:
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
};

/// What the limits of random pipelines are: slow links, latencies, too little memory for all buffers, W that wait.
struct Tight {
  Random random;
  explicit Tight(uint64_t seed) : random(seed) {}

  RandomPipeline next();
  /// Between one slot a ring and all that it would take.
  int64_t limit(const plan::Variant &free, const simulate::Result &result);
};

/// The most that a rank holds at once in the simulated run, by the times of its passes.
std::vector<int64_t> heldPeaks(const plan::Variant &variant);

} // namespace pipec::test
