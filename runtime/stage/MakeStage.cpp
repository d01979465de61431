// The choice of a stage.
#include "runtime/stage/MakeStage.h"

#include "runtime/stage/synthetic/SyntheticStage.h"

namespace pipec::runtime {

Status makeStage(const std::string &choice, const StageContext &context, std::unique_ptr<Stage> &stage) {
  if (choice != kSynthetic)
    return Status::usage("--stage=" + choice + " is not supported yet; use --stage=synthetic");
  stage = std::make_unique<SyntheticStage>(context.rank, context.device, context.clock, context.failure, context.pace);
  return {};
}

} // namespace pipec::runtime
