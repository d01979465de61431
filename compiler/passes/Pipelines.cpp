#include "compiler/passes/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

namespace pipec {

void buildPipeline(mlir::OpPassManager &manager) {
  manager.addPass(createBuildSchedule());
  manager.addPass(createInsertCommunication());
  manager.addPass(createOverlapCommunication());
  manager.addPass(createAllocateSlots());
  manager.addPass(createCheckMemory());
  manager.addPass(createCheckDeadlock());
}

void registerPipelines() {
  mlir::PassPipelineRegistration<>("pipe-compile", "all passes of pipec, in order", buildPipeline);
}

} // namespace pipec
