// How pipec prints diagnostics: `file:line:column: error: message`, the line with a caret, notes likewise. The file may
// be a stranger's: no more of it is read than a spec may have, and no control character of it reaches the terminal.
#pragma once

#include "compiler/driver/Compile.h"

#include "mlir/IR/Diagnostics.h"

namespace pipec {

/// Prints a diagnostic and its notes on standard error.
void print(mlir::Diagnostic &diagnostic);

/// Prints every diagnostic of a context while it lives, and keeps the first error's place and words.
class FirstError {
public:
  FirstError(mlir::MLIRContext &context, Failure &failure, Said said);

private:
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace pipec
