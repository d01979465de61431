// The dialect `pipe`: types, attributes and ops of both levels. See PipeOps.td; the reference is generated from it.
#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/RegionKindInterface.h"
#include "mlir/IR/SymbolTable.h"

#include "dialects/pipe/PipeDialect.h.inc"
#include "dialects/pipe/PipeEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/pipe/PipeAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/pipe/PipeTypes.h.inc"

namespace pipec::pipe {
class BlockOp;
} // namespace pipec::pipe

#define GET_OP_CLASSES
#include "dialects/pipe/PipeOps.h.inc"

namespace pipec::pipe {

/// The one value of a type among operands or results; null if there is none.
template <typename Type> mlir::Value firstOf(mlir::ValueRange values) {
  for (mlir::Value value : values)
    if (mlir::isa<Type>(value.getType()))
      return value;
  return nullptr;
}

} // namespace pipec::pipe
