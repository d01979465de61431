// The dialect `pipe`: types, attributes and ops of both levels. See PipeOps.td; the reference is generated from it.
#pragma once

#include "runtime/plan/Kinds.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/RegionKindInterface.h"
#include "mlir/IR/SymbolTable.h"

#include "dialects/pipe/PipeDialect.h.inc"
#include "dialects/pipe/PipeEnums.h.inc"

namespace pipec::pipe {

/// One entry of an order (#pipe.order). Mostly it is a pass of a stage, which names no microbatch: passes of one stage
/// and kind take theirs in order. An order that places its transfers also has sends, receives, and waits for the end of
/// a send.
struct Action {
  plan::Kind kind = plan::Kind::Forward;  // for a wait: Send
  plan::Payload of = plan::Payload::None; // what a transfer carries, or the send that a wait is for
  bool waits = false;                     // whether it is a wait
  bool overlapped = false;                // for an F: it runs together with the backward after it
  int32_t stage = 0;
  int32_t microbatch = -1; // of a transfer or a wait
  bool operator==(const Action &) const = default;
};

inline llvm::hash_code hash_value(const Action &action) {
  return llvm::hash_combine(uint8_t(action.kind), uint8_t(action.of), action.waits, action.overlapped, action.stage,
                            action.microbatch);
}

/// An entry as the text of an order has it: "F0", "send(F0, 3)".
std::string text(const Action &action);

} // namespace pipec::pipe

#define GET_ATTRDEF_CLASSES
#include "dialects/pipe/PipeAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/pipe/PipeTypes.h.inc"

namespace pipec::pipe {
class BlockOp;
class ForwardOp;
} // namespace pipec::pipe

#include "dialects/pipe/PipeInterfaces.h.inc"

#define GET_OP_CLASSES
#include "dialects/pipe/PipeOps.h.inc"

namespace pipec::pipe {

/// The first value of the type `Type` among operands or results; null if there is none.
template <typename Type> mlir::Value firstOf(mlir::ValueRange values) {
  for (mlir::Value value : values)
    if (mlir::isa<Type>(value.getType()))
      return value;
  return nullptr;
}

/// The op that makes a value. For a result of a pair (pipe.overlapped) that is one of the two passes in it.
mlir::Operation *sourceOf(mlir::Value value);

} // namespace pipec::pipe
