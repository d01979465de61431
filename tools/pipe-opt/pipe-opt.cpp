// mlir-opt with this dialect and these passes.
#include "compiler/passes/Passes.h"

#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<pipec::pipe::PipeDialect>();
  pipec::registerPipecPasses();
  pipec::registerPipelines();
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "pipec's passes, alone or together\n", registry));
}
