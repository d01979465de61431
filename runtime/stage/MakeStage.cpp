// The choice of a stage.
#include "runtime/stage/MakeStage.h"

#include "runtime/plan/Layers.h"
#include "runtime/stage/cuda/CudaLibraryStage.h"
#include "runtime/stage/cuda/CudaSyntheticStage.h"
#include "runtime/stage/hosted/HostedStage.h"
#include "runtime/stage/library/LibraryStage.h"
#include "runtime/stage/synthetic/SyntheticStage.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace pipec::runtime {

Status checkStage(const std::string &choice, const plan::Plan &plan, const LibraryUse &use) {
  if (choice == kSynthetic)
    return {};
  // A library is named by its path; a plain word was meant as the name of a stage.
  if (choice == "torch")
    return Status::usage("--stage=torch is not supported yet; use synthetic or the path of a library");
  if (choice.find('/') == std::string::npos && choice.find('.') == std::string::npos)
    return Status::usage("--stage=" + choice + ": there is no such stage; use synthetic or the path of a library");
  if (plan.variants.front().copies > 1)
    return Status::usage("--stage=" + choice + ": the plan sums the gradients of two copies of each stage, which a " +
                         "library cannot yet; use synthetic");
  for (const plan::SharedWeight &weight : plan.variants.front().shared)
    if (plan::ranksOf(plan.variants.front(), weight).size() > 1)
      return Status::usage(fmt::format("--stage={}: the plan sums the gradients of a weight that layers {} share over "
                                       "ranks, which a library cannot yet; use synthetic",
                                       choice, fmt::join(weight.layers, ", ")));
  for (const plan::Variant &variant : plan.variants)
    if (const std::vector<int32_t> stages = plan::stagesDoing(variant, plan::kRecomputation); !stages.empty())
      return Status::usage(fmt::format("--stage={}: the plan runs the forward of stage {} again (R), which a library "
                                       "cannot yet; use synthetic, or compile it with recompute: none",
                                       choice, stages.front()));
  Status status = tryLibrary(choice, plan, use);
  const Code code = status.code == Code::Check ? Code::Input : Code::Usage; // the plan is what does not fit
  return status.ok() ? status : Status{code, "--stage: " + status.message};
}

Status makeStage(const std::string &choice, const StageContext &context, std::unique_ptr<Stage> &stage) {
  if (choice == kSynthetic) {
    stage =
        std::make_unique<SyntheticStage>(context.world, context.plan, context.device, context.clock, context.failure,
                                         context.pace, context.network, context.payload, context.group);
    return {};
  }
  Library library;
  Status status = openLibrary(choice, context.plan, {}, library);
  if (!status.ok())
    return status;
  return LibraryStage::make(library, context, stage);
}

void makeStage(const Hosting &hosting, const StageContext &context, std::unique_ptr<Stage> &stage) {
  stage = std::make_unique<HostedStage>(*hosting.handover, hosting.layers, plan::placeOf(context.world, context.plan),
                                        context.device, context.clock);
}

void makeStage(const Hosting &hosting, const plan::Plan &plan, int32_t world, CudaDevice &device, Failure &failure,
               std::unique_ptr<Stage> &stage) {
  stage =
      std::make_unique<CudaHostedStage>(*hosting.handover, hosting.layers, plan::placeOf(world, plan), device, failure);
}

Status makeStage(const std::string &choice, const plan::Plan &plan, int32_t world, CudaDevice &device, Failure &failure,
                 std::unique_ptr<Stage> &stage) {
  if (choice == kSynthetic) {
    stage = std::make_unique<CudaSyntheticStage>(world, plan, device, failure);
    return failure.status();
  }
  Library library;
  Status status = openLibrary(choice, plan, {.onGpu = true}, library);
  return status.ok() ? CudaLibraryStage::make(library, plan, world, device, failure, stage) : status;
}

} // namespace pipec::runtime
