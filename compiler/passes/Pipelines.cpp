#include "compiler/passes/Passes.h"

namespace pipec {

Lowering lowerPipeline(pipe::PipelineOp pipeline, const LowerPipelineOptions &options) {
  Lowering made;
  const auto fails = [&](mlir::LogicalResult result, Code code) {
    if (mlir::failed(result))
      made.code = code;
    return mlir::failed(result);
  };
  mlir::FailureOr<ProgramSet> set = buildSchedule(pipeline);
  if (fails(set, Code::Input))
    return made;
  made.set = std::move(*set);
  std::optional<Ordered> ordered;
  if (fails(insertCommunication(made.set, pipeline, ordered, options.see), Code::Check))
    return made;
  if (fails(overlapCommunication(made.set, std::move(ordered)), Code::Check)) // `ordered` is freed with this statement
    return made;
  if (fails(hoistRecompute(made.set, pipeline), Code::Check))
    return made;
  if (fails(allocateSlots(made.set, pipeline), Code::Check))
    return made;
  const Lowered &lowered = made.lowered.emplace(made.set, options.keepVisits);
  if (fails(checkLength(made.set, lowered), Code::Input) ||
      fails(checkMemory(made.set, lowered, options.others), Code::Check) ||
      fails(checkDeadlock(made.set, lowered, pipeline->getParentOp()->getLoc()), Code::Check))
    made.lowered.reset();
  return made;
}

} // namespace pipec
