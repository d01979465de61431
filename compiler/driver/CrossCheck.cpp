#include "compiler/driver/CrossCheck.h"

#include "compiler/schedule/evaluate/Evaluate.h"
#include "runtime/simulate/Simulate.h"

namespace pipec {

std::string crossCheck(const schedule::Problem &problem, const schedule::Words &words, const plan::Variant &ideal) {
  schedule::Evaluation fast = schedule::evaluate(problem, words, {.withSpan = false});
  simulate::Result judge;
  Status status = simulate::simulate(ideal, {.steps = 1, .idealLinks = true, .observe = {}}, judge);
  if (!status.ok() || !fast.complete)
    return status.ok() == fast.complete ? "" : "the evaluator and the simulator do not agree whether the words end";
  if (fast.makespan != judge.makespan)
    return "the evaluator finds a makespan of " + std::to_string(fast.makespan) + " ps, the simulator " +
           std::to_string(judge.makespan) + " ps";
  for (size_t rank = 0; rank != judge.ranks.size(); ++rank)
    if (fast.peak[rank] != judge.ranks[rank].peakActivation)
      return "the evaluator finds a peak of " + std::to_string(fast.peak[rank]) + " bytes on rank " +
             std::to_string(rank) + ", the simulator " + std::to_string(judge.ranks[rank].peakActivation);
  return {};
}

} // namespace pipec
