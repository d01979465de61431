// How pipec prints diagnostics: `file:line:column: error: message`, then the line with a caret; notes in the same form.
// The file may be untrusted: pipec reads no more of it than a spec may have, and no control character of the file
// reaches the terminal.
#pragma once

#include "compiler/driver/Compile.h"

#include "mlir/IR/Diagnostics.h"

namespace pipec {

/// Prints a diagnostic and its notes on standard error.
void print(mlir::Diagnostic &diagnostic);

/// Prints every diagnostic of a context during its lifetime, and keeps the place and message of the first error.
class FirstError {
public:
  FirstError(mlir::MLIRContext &context, Failure &failure, Said said);

private:
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace pipec
