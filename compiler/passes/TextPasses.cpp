// The passes as pipe-opt runs them: each reads the module's programs, works on the program set, and writes that again.
#include "compiler/passes/Passes.h"
#include "compiler/program/ProgramText.h"

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

namespace pipec {

#define GEN_PASS_DECL
#define GEN_PASS_DEF_BUILDSCHEDULE
#define GEN_PASS_DEF_DECOUPLEALLREDUCE
#define GEN_PASS_DEF_FUSECOLLECTIVES
#define GEN_PASS_DEF_INSERTCOMMUNICATION
#define GEN_PASS_DEF_OVERLAPCOMMUNICATION
#define GEN_PASS_DEF_HOISTRECOMPUTE
#define GEN_PASS_DEF_ALLOCATESLOTS
#define GEN_PASS_DEF_CHECKLENGTH
#define GEN_PASS_DEF_CHECKMEMORY
#define GEN_PASS_DEF_CHECKDEADLOCK
#define GEN_PASS_DEF_OPENWINDOWS
#include "compiler/passes/Passes.h.inc"

namespace {

using mlir::LogicalResult;
using mlir::ModuleOp;

/// The module's first pipeline; null if it has none.
pipe::PipelineOp knownPipeline(ModuleOp module) {
  const auto pipelines = module.getOps<pipe::PipelineOp>();
  return pipelines.empty() ? pipe::PipelineOp() : *pipelines.begin();
}

/// Reads the module's programs, does `work` on them, and writes them again.
template <typename Work> LogicalResult changePrograms(ModuleOp module, Work work) {
  mlir::FailureOr<ProgramSet> set = readPrograms(module);
  if (failed(set) || failed(work(*set)))
    return mlir::failure();
  writePrograms(*set, module);
  return mlir::success();
}

/// Reads, lowers and walks the module's programs, and asks `question` about them.
template <typename Question> LogicalResult askPrograms(ModuleOp module, Question question) {
  mlir::FailureOr<ProgramSet> set = readPrograms(module);
  return failed(set) ? mlir::failure() : question(*set, Lowered(*set));
}

struct BuildSchedule : impl::BuildScheduleBase<BuildSchedule> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    pipe::PipelineOp pipeline = findPipeline(module);
    if (!pipeline)
      return signalPassFailure();
    if (const auto programs = module.getOps<pipe::ProgramOp>(); !programs.empty()) {
      (*programs.begin()).emitError("expected no 'pipe.program' yet");
      return signalPassFailure();
    }
    mlir::FailureOr<ProgramSet> set = buildSchedule(pipeline);
    if (failed(set))
      return signalPassFailure();
    writePrograms(*set, module);
  }
};

/// A pass that asks the pipeline, on programs that have no transfers.
template <typename Work> LogicalResult changeWithPipeline(ModuleOp module, Work work) {
  pipe::PipelineOp pipeline = findPipeline(module);
  if (!pipeline)
    return mlir::failure();
  return changePrograms(module, [&](ProgramSet &set) { return work(set, pipeline); });
}

struct DecoupleAllReduce : impl::DecoupleAllReduceBase<DecoupleAllReduce> {
  void runOnOperation() override {
    if (failed(changeWithPipeline(getOperation(), decoupleAllReduce)))
      signalPassFailure();
  }
};

struct FuseCollectives : impl::FuseCollectivesBase<FuseCollectives> {
  void runOnOperation() override {
    if (failed(changeWithPipeline(getOperation(), fuseCollectives)))
      signalPassFailure();
  }
};

struct InsertCommunication : impl::InsertCommunicationBase<InsertCommunication> {
  void runOnOperation() override {
    if (failed(changeWithPipeline(getOperation(), [](ProgramSet &set, pipe::PipelineOp pipeline) {
          std::optional<Ordered> ordered;
          return insertCommunication(set, pipeline, ordered);
        })))
      signalPassFailure();
  }
};

struct OverlapCommunication : impl::OverlapCommunicationBase<OverlapCommunication> {
  void runOnOperation() override {
    if (failed(changePrograms(getOperation(), [](ProgramSet &set) {
          return mlir::failed(matchTransfers(set)) ? mlir::failure() : overlapCommunication(set);
        })))
      signalPassFailure();
  }
};

/// A pass on matched transfers that asks the pipeline, if there is one.
template <typename Work> LogicalResult changeMatched(ModuleOp module, Work work) {
  return changePrograms(module, [&](ProgramSet &set) {
    return mlir::failed(matchTransfers(set)) ? mlir::failure() : work(set, knownPipeline(module));
  });
}

struct HoistRecompute : impl::HoistRecomputeBase<HoistRecompute> {
  void runOnOperation() override {
    if (failed(changeMatched(getOperation(), hoistRecompute)))
      signalPassFailure();
  }
};

struct AllocateSlots : impl::AllocateSlotsBase<AllocateSlots> {
  void runOnOperation() override {
    if (failed(changeMatched(getOperation(), allocateSlots)))
      signalPassFailure();
  }
};

struct CheckLength : impl::CheckLengthBase<CheckLength> {
  void runOnOperation() override {
    markAllAnalysesPreserved();
    if (failed(askPrograms(getOperation(), checkLength)))
      signalPassFailure();
  }
};

struct CheckMemory : impl::CheckMemoryBase<CheckMemory> {
  void runOnOperation() override {
    markAllAnalysesPreserved();
    if (failed(askPrograms(getOperation(),
                           [](const ProgramSet &set, const Lowered &lowered) { return checkMemory(set, lowered); })))
      signalPassFailure();
  }
};

struct CheckDeadlock : impl::CheckDeadlockBase<CheckDeadlock> {
  void runOnOperation() override {
    markAllAnalysesPreserved();
    if (failed(askPrograms(getOperation(), [&](const ProgramSet &set, const Lowered &lowered) {
          return checkDeadlock(set, lowered, getOperation().getLoc());
        })))
      signalPassFailure();
  }
};

struct OpenWindows : impl::OpenWindowsBase<OpenWindows> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    pipe::PipelineOp pipeline = findPipeline(module);
    if (!pipeline || failed(changePrograms(module, [&](ProgramSet &set) { return open(set, pipeline); })))
      signalPassFailure();
  }

private:
  static LogicalResult open(ProgramSet &set, pipe::PipelineOp pipeline) {
    if (!set.jobs)
      return mlir::success();
    for (Program &program : set.programs) {
      program.job = -1;
      program.piece = 0;
      program.windows.clear();
    }
    Lowered lowered(set);
    if (failed(checkDeadlock(set, lowered, pipeline->getParentOp()->getLoc())))
      return mlir::failure();
    lowered.variant.certificate.span = lowered.span;
    if (openWindows(*set.jobs, pipeline.getLoc(), true, Walked{&lowered.variant, &lowered.result}) != Code::Ok)
      return mlir::failure();
    noteWindows(lowered.variant, set);
    return mlir::success();
  }
};

} // namespace

void registerPasses() {
  mlir::PassRegistration<BuildSchedule>();
  mlir::PassRegistration<DecoupleAllReduce>();
  mlir::PassRegistration<FuseCollectives>();
  mlir::PassRegistration<InsertCommunication>();
  mlir::PassRegistration<OverlapCommunication>();
  mlir::PassRegistration<HoistRecompute>();
  mlir::PassRegistration<AllocateSlots>();
  mlir::PassRegistration<CheckLength>();
  mlir::PassRegistration<CheckMemory>();
  mlir::PassRegistration<CheckDeadlock>();
  mlir::PassRegistration<OpenWindows>();
  mlir::PassPipelineRegistration<>("pipe-compile", "all passes of pipec, in order", [](mlir::OpPassManager &manager) {
    manager.addPass(std::make_unique<BuildSchedule>());
    manager.addPass(std::make_unique<DecoupleAllReduce>());
    manager.addPass(std::make_unique<FuseCollectives>());
    manager.addPass(std::make_unique<InsertCommunication>());
    manager.addPass(std::make_unique<OverlapCommunication>());
    manager.addPass(std::make_unique<HoistRecompute>());
    manager.addPass(std::make_unique<AllocateSlots>());
    manager.addPass(std::make_unique<CheckLength>());
    manager.addPass(std::make_unique<CheckMemory>());
    manager.addPass(std::make_unique<CheckDeadlock>());
    manager.addPass(std::make_unique<OpenWindows>());
  });
}

} // namespace pipec
