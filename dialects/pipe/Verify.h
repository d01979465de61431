// Rules that ops of both levels share. Each emits an error on `op` that says what it expected and what it found; `what`
// is the name of the value in that message.
#pragma once

#include "dialects/pipe/Pipe.h"

namespace pipec::pipe {

/// Expects picoseconds from 0 to limits::kTime.
mlir::LogicalResult verifyTime(mlir::Operation *op, mlir::StringRef what, int64_t time);

/// Expects bytes from `least` to limits::kBytes; without a value everything is right.
mlir::LogicalResult verifyBytes(mlir::Operation *op, mlir::StringRef what, std::optional<uint64_t> bytes,
                                int64_t least = 0);

} // namespace pipec::pipe
