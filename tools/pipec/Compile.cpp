#include "tools/pipec/Compile.h"

#include "compiler/emit/Plan.h"
#include "compiler/passes/FromSpec.h"
#include "compiler/passes/Lowered.h"
#include "compiler/passes/Passes.h"
#include "compiler/spec/Reader.h"
#include "runtime/plan/Write.h"
#include "tools/pipec/HugeHeap.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>

using namespace mlir;

namespace pipec {

namespace {

/// Keeps the first error's place and words; the printing handler below it sees every diagnostic too.
class FirstError {
public:
  FirstError(MLIRContext &context, Failure &failure)
      : handler(&context, [&failure](Diagnostic &diagnostic) {
          if (diagnostic.getSeverity() == DiagnosticSeverity::Error && failure.message.empty()) {
            failure.message = diagnostic.str();
            if (auto place = diagnostic.getLocation()->findInstanceOf<FileLineColLoc>()) {
              failure.file = place.getFilename().str();
              failure.line = place.getLine();
              failure.column = place.getColumn();
            }
          }
          return mlir::failure(); // go on to the handler that prints
        }) {}

private:
  ScopedDiagnosticHandler handler;
};

/// A failed check is not a wrong file: memory, deadlock and programs that wait for each other end with code 3.
struct CodeOfFailure : PassInstrumentation {
  explicit CodeOfFailure(Code &code) : code(code) {}
  void runAfterPassFailed(Pass *pass, Operation *) override {
    StringRef name = pass->getArgument();
    code = name == "pipe-build-schedule" ? Code::Input : Code::Check;
  }
  Code &code;
};

std::string print(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, OpPrintingFlags().enableDebugInfo(false));
  stream << "\n";
  return text;
}

} // namespace

bool compile(const std::string &path, const std::vector<std::string> &set, Stage until, Compiled &compiled,
             Failure &failure) {
  auto begin = std::chrono::steady_clock::now();
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.printOpOnDiagnostic(false);
  llvm::SourceMgr sources;
  SourceMgrDiagnosticHandler printing(sources, &context, llvm::errs());
  FirstError first(context, failure);
  auto stop = [&](Code code) {
    failure.code = code;
    return false;
  };

  spec::Spec spec;
  std::vector<spec::Diagnostic> diagnostics;
  bool read = spec::readSpec(path, set, spec, diagnostics);
  for (const spec::Diagnostic &each : diagnostics) {
    InFlightDiagnostic error =
        emitError(FileLineColLoc::get(&context, each.file, unsigned(each.line), unsigned(each.column))) << each.message;
    for (const spec::Note &note : each.notes)
      error.attachNote(FileLineColLoc::get(&context, note.file, unsigned(note.line), unsigned(note.column)))
          << note.message;
  }
  if (!read)
    return stop(Code::Input);

  OwningOpRef<ModuleOp> module = fromSpec(spec, context);
  if (!module)
    return stop(Code::Input);
  if (until == Stage::Design) {
    compiled.text = print(*module);
    return true;
  }

  // About six ops a stage and microbatch, with what the passes keep beside them.
  constexpr size_t kBytesEach = 3000, kLarge = size_t(32) << 20;
  if (size_t bytes = size_t(spec.stages) * size_t(spec.microbatches.value) * kBytesEach; bytes > kLarge)
    growHeap(bytes);
  PassManager manager(&context);
  manager.enableVerifier(false); // Every op was made by our own code; pipe-opt and the tests verify.
  Code code = Code::Ok;
  manager.addInstrumentation(std::make_unique<CodeOfFailure>(code));
  buildPipeline(manager);
  std::optional<Lowered> lowered;
  manager.addPass(createTakeLowered(lowered));
  if (failed(manager.run(*module)))
    return stop(code);
  if (until == Stage::Programs) {
    compiled.text = print(*module);
    return true;
  }

  pipe::PipelineOp pipeline = findPipeline(*module);
  auto programs = findPrograms(*module);
  if (std::string differs = crossCheck(pipeline, *programs); !differs.empty()) {
    pipeline.emitError() << "internal: " << differs << "; please report this spec";
    return stop(Code::Check);
  }
  std::vector<plan::Variant> variants;
  variants.push_back(emit::variant(*lowered, problemOf(pipeline), spec.schedule.name));
  compiled.plan = emit::plan(std::move(variants), spec.hash, {});
  compiled.bytes = plan::encode(compiled.plan);
  compiled.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  (void)module.release(); // The process ends soon; taking a large module apart would cost more than making it.
  return true;
}

} // namespace pipec
