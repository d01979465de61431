// Rules that ops of both levels share. Each emits an error on `op` that says what was expected and found.
#pragma once

#include "dialects/pipe/Pipe.h"

namespace pipec::pipe {

/// Picoseconds, from 0 to limits::kTime.
mlir::LogicalResult verifyTime(mlir::Operation *op, mlir::StringRef what, int64_t time);

/// From `least` to limits::kBytes, where it is given.
mlir::LogicalResult verifyBytes(mlir::Operation *op, mlir::StringRef what, std::optional<uint64_t> bytes,
                                int64_t least = 0);

} // namespace pipec::pipe
