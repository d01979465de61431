// How pipec prints diagnostics: `file:line:column: error: message`, the line with a caret, notes likewise. The file may
// be a stranger's: no more of it is read than a spec may have, and no control character of it reaches the terminal.
#pragma once

#include "mlir/IR/Diagnostics.h"

namespace pipec {

/// Prints a diagnostic and its notes on standard error.
void print(mlir::Diagnostic &diagnostic);

} // namespace pipec
