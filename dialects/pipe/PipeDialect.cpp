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

LogicalResult LinkAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, int32_t from, int32_t to,
                               int64_t latency, int64_t bandwidth) {
  auto isRank = [](int32_t rank) { return rank >= 0 && rank < pipec::limits::kRanks; };
  bool isDefault = from == -1 && to == -1;
  if (!isDefault && (!isRank(from) || !isRank(to)))
    return emitError() << "expected ranks between 0 and " << pipec::limits::kRanks - 1
                       << " (or -1 to -1 for the default), found " << from << " to " << to;
  if (!isDefault && from == to)
    return emitError() << "expected two ranks, found " << from << " to itself";
  if (latency < 0 || latency > pipec::limits::kTime)
    return emitError() << "expected a latency between 0 and " << pipec::limits::kTime << " ps, found " << latency;
  if (bandwidth < 0)
    return emitError() << "expected a bandwidth of 0 (unlimited) or more bytes per second, found " << bandwidth;
  return success();
}

LogicalResult RingAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, bool, int32_t peer, int32_t slots,
                               int64_t bytes) {
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
      parser.parseKeyword("bytes") || parser.parseInteger(bytes) || parser.parseGreater())
    return {};
  return RingAttr::getChecked([&] { return parser.emitError(at); }, parser.getContext(), direction == "send", peer,
                              slots, bytes);
}

void RingAttr::print(AsmPrinter &printer) const {
  printer << "<" << (getSends() ? "send " : "recv ") << getPeer() << " slots " << getSlots() << " bytes " << getBytes()
          << ">";
}
