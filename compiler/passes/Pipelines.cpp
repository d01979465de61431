#include "compiler/passes/Lowered.h"
#include "compiler/passes/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

namespace pipec {

namespace {

struct TakeLowered : mlir::PassWrapper<TakeLowered, mlir::OperationPass<mlir::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TakeLowered)
  explicit TakeLowered(std::optional<Lowered> &taken) : taken(taken) {}
  void runOnOperation() override { taken = std::move(getAnalysis<Lowered>()); }
  std::optional<Lowered> &taken;
};

struct TakeWords : mlir::PassWrapper<TakeWords, mlir::OperationPass<mlir::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TakeWords)
  explicit TakeWords(std::function<void(schedule::Words)> take) : take(std::move(take)) {}
  void runOnOperation() override {
    take(wordsOf(getAnalysis<Streams>()));
    markAllAnalysesPreserved();
  }
  std::function<void(schedule::Words)> take;
};

} // namespace

std::unique_ptr<mlir::Pass> createTakeWords(std::function<void(schedule::Words)> take) {
  return std::make_unique<TakeWords>(std::move(take));
}

std::unique_ptr<mlir::Pass> createTakeLowered(std::optional<Lowered> &taken) {
  return std::make_unique<TakeLowered>(taken);
}

void buildPrograms(mlir::OpPassManager &manager) {
  manager.addPass(createInsertCommunication());
  manager.addPass(createOverlapCommunication());
  manager.addPass(createAllocateSlots());
}

void buildChecks(mlir::OpPassManager &manager, OtherSchedules others) {
  manager.addPass(createCheckLength());
  manager.addPass(createCheckMemory(std::move(others)));
  manager.addPass(createCheckDeadlock());
}

void buildPipeline(mlir::OpPassManager &manager, Wanted wanted) {
  manager.addPass(createBuildSchedule(wanted));
  buildPrograms(manager);
  buildChecks(manager);
}

void registerPipelines() {
  mlir::PassPipelineRegistration<>("pipe-compile", "all passes of pipec, in order",
                                   [](mlir::OpPassManager &manager) { buildPipeline(manager); });
}

} // namespace pipec
