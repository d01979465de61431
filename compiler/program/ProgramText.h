// Reads a program set from its text, `pipe.program` ops, and writes it; no other code does. Reading what was written
// gives the same set. Writing what was read gives the same text, if this code had written the text.
#pragma once

#include "compiler/program/ProgramSet.h"

#include "mlir/IR/BuiltinOps.h"

namespace pipec {

/// The programs of a module that has passed MLIR's verifier. Sends and receives are not matched yet. An error if a rank
/// has no program or two, or if an instruction names a rank without a program.
mlir::FailureOr<ProgramSet> readPrograms(mlir::ModuleOp module);

/// Finds the transfers of programs that were read: a send and a receive match if payload, stage and microbatch do. An
/// error if a send has no receive, a receive no send, or if no single pass takes what a receive brings.
mlir::LogicalResult matchTransfers(ProgramSet &set);

/// Writes the programs at the end of the module, in place of those that it has.
void writePrograms(const ProgramSet &set, mlir::ModuleOp module);

} // namespace pipec
