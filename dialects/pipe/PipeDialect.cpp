// Registration, types and attributes of the dialect.
#include "dialects/pipe/Pipe.h"

#include "runtime/plan/Limits.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace pipec::pipe;

#include "dialects/pipe/PipeDialect.cpp.inc"
#include "dialects/pipe/PipeEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/pipe/PipeAttrs.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/pipe/PipeTypes.cpp.inc"

void PipeDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/pipe/PipeAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/pipe/PipeTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/pipe/PipeOps.cpp.inc"
      >();
}

static LogicalResult verifyBytes(llvm::function_ref<InFlightDiagnostic()> emitError, int64_t bytes) {
  if (bytes < 0 || bytes > pipec::limits::kBytes)
    return emitError() << "expected a size between 0 and " << pipec::limits::kBytes << " bytes, found " << bytes;
  return success();
}

LogicalResult BufferType::verify(llvm::function_ref<InFlightDiagnostic()> emitError, int64_t bytes) {
  return verifyBytes(emitError, bytes);
}
LogicalResult ActivationType::verify(llvm::function_ref<InFlightDiagnostic()> emitError, int64_t bytes) {
  return verifyBytes(emitError, bytes);
}
LogicalResult ContextType::verify(llvm::function_ref<InFlightDiagnostic()> emitError, int64_t bytes) {
  return verifyBytes(emitError, bytes);
}

LogicalResult InputType::verify(llvm::function_ref<InFlightDiagnostic()> emitError, int64_t bytes) {
  return verifyBytes(emitError, bytes);
}

LogicalResult RingAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, bool, int32_t peer, int32_t slots,
                               int64_t bytes, bool) {
  if (peer < 0 || peer >= pipec::limits::kRanks || slots < 1)
    return emitError() << "expected a peer between 0 and " << pipec::limits::kRanks - 1
                       << " and at least one slot, found peer " << peer << " and " << slots << " slots";
  return verifyBytes(emitError, bytes);
}

Attribute RingAttr::parse(AsmParser &parser, Type) {
  StringRef direction;
  int32_t peer = 0, slots = 0;
  int64_t bytes = 0;
  SMLoc at = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseKeyword(&direction))
    return {};
  if (direction != "send" && direction != "recv") {
    parser.emitError(at, "expected 'send' or 'recv', found '") << direction << "'";
    return {};
  }
  if (parser.parseInteger(peer) || parser.parseKeyword("slots") || parser.parseInteger(slots) ||
      parser.parseKeyword("bytes") || parser.parseInteger(bytes))
    return {};
  const bool drained = succeeded(parser.parseOptionalKeyword("drained"));
  if (parser.parseGreater())
    return {};
  return RingAttr::getChecked([&] { return parser.emitError(at); }, parser.getContext(), direction == "send", peer,
                              slots, bytes, drained);
}

void RingAttr::print(AsmPrinter &printer) const {
  printer << "<" << (getSends() ? "send " : "recv ") << getPeer() << " slots " << getSlots() << " bytes " << getBytes()
          << (getDrained() ? " drained>" : ">");
}
