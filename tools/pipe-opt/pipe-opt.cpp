// mlir-opt with this dialect and these passes.
#include "compiler/passes/Passes.h"
#include "tools/commandline/Standard.h"

#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/raw_ostream.h"

int main(int argc, char **argv) {
  pipec::guardStandardStreams();
  mlir::DialectRegistry registry;
  registry.insert<pipec::pipe::PipeDialect>();
  pipec::registerPasses();
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  const int code =
      mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "pipec's passes, alone or together\n", registry));
  llvm::errs().clear_error(); // else it would end the process for a message that nobody got
  return code;
}
