#include "compiler/passes/Lowered.h"
#include "compiler/passes/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

namespace pipec {

namespace {

struct TakeLowered : mlir::PassWrapper<TakeLowered, mlir::OperationPass<mlir::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TakeLowered)
  TakeLowered(std::optional<Lowered> &taken, schedule::Words &words) : taken(taken), words(words) {}
  void runOnOperation() override {
    taken = std::move(getAnalysis<Lowered>());
    words = wordsOf(getAnalysis<Streams>());
  }
  std::optional<Lowered> &taken;
  schedule::Words &words;
};

} // namespace

std::unique_ptr<mlir::Pass> createTakeLowered(std::optional<Lowered> &taken, schedule::Words &words) {
  return std::make_unique<TakeLowered>(taken, words);
}

void buildPipeline(mlir::OpPassManager &manager, Wanted wanted) {
  manager.addPass(createBuildSchedule(wanted));
  manager.addPass(createInsertCommunication());
  manager.addPass(createOverlapCommunication());
  manager.addPass(createAllocateSlots());
  manager.addPass(createCheckLength());
  manager.addPass(createCheckMemory());
  manager.addPass(createCheckDeadlock());
}

void registerPipelines() {
  mlir::PassPipelineRegistration<>("pipe-compile", "all passes of pipec, in order",
                                   [](mlir::OpPassManager &manager) { buildPipeline(manager); });
}

} // namespace pipec
