// The text of a program set, `pipe.program` ops: read and written here and nowhere else. Reading what was written gives
// the same set; writing what was read gives the same text where that was written here.
#pragma once

#include "compiler/program/ProgramSet.h"

#include "mlir/IR/BuiltinOps.h"

namespace pipec {

/// The programs of a module whose ops the verifier has passed; transfers are not matched yet. An error where a rank's
/// program is missing or doubled, or an instruction names a rank that has none.
mlir::FailureOr<ProgramSet> readPrograms(mlir::ModuleOp module);

/// Finds the transfers of programs that were read, by what they carry (payload, stage, microbatch). An error where a
/// send has no receive or the other way round, or no pass at its end.
mlir::LogicalResult matchTransfers(ProgramSet &set);

/// Puts these programs behind the module's pipeline, in place of those that it has.
void writePrograms(const ProgramSet &set, mlir::ModuleOp module);

} // namespace pipec
