// How pipec prints diagnostics: `file:line:column: error: message`, the line with a caret, notes likewise. Of a
// stranger's file no more is read than a spec may have, and nothing of it reaches the terminal as a control character.
#pragma once

#include "mlir/IR/Diagnostics.h"

namespace pipec {

/// Prints a diagnostic and its notes on standard error.
void print(mlir::Diagnostic &diagnostic);

} // namespace pipec
