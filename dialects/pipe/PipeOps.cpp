// Verifiers of passes and of the ops of a program, one function per rule.
#include "dialects/pipe/Verify.h"

#include "runtime/plan/Limits.h"

#include "mlir/IR/Builders.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

using namespace mlir;
using namespace pipec::pipe;

namespace plan = pipec::plan;

/// Orders are in brackets, and are printed one per line.
static ParseResult parseOrders(OpAsmParser &parser, ArrayAttr &orders) {
  SmallVector<Attribute> each;
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                     [&] { return parser.parseAttribute(each.emplace_back()); }))
    return failure();
  orders = parser.getBuilder().getArrayAttr(each);
  return success();
}

static void printOrders(OpAsmPrinter &printer, Operation *, ArrayAttr orders) {
  printer << "[";
  printer.increaseIndent();
  printer.increaseIndent();
  llvm::interleave(
      orders,
      [&](Attribute order) {
        printer.printNewline();
        printer << order;
      },
      [&] { printer << ","; });
  printer.decreaseIndent();
  printer.decreaseIndent();
  printer << "]";
}

/// `layers 0 to 4`, in place of `#pipe.layers<0 to 4>`.
static ParseResult parseLayers(OpAsmParser &parser, LayersAttr &layers) {
  int32_t first = 0, end = 0;
  const SMLoc at = parser.getCurrentLocation();
  if (parser.parseInteger(first) || parser.parseKeyword("to") || parser.parseInteger(end))
    return failure();
  layers = LayersAttr::getChecked([&] { return parser.emitError(at); }, parser.getContext(), first, end);
  return success(bool(layers));
}

static void printLayers(OpAsmPrinter &printer, Operation *, LayersAttr layers) {
  printer << layers.getFirst() << " to " << layers.getEnd();
}

/// `window 5000`, or one that begins later: `window 5000 from 20`.
static ParseResult parseWindow(OpAsmParser &parser, WindowAttr &window) {
  int64_t length = 0, from = 0;
  const SMLoc at = parser.getCurrentLocation();
  if (parser.parseInteger(length) || (succeeded(parser.parseOptionalKeyword("from")) && parser.parseInteger(from)))
    return failure();
  window = WindowAttr::getChecked([&] { return parser.emitError(at); }, parser.getContext(), length, from);
  return success(bool(window));
}

static void printWindow(OpAsmPrinter &printer, Operation *, WindowAttr window) {
  printer << window.getLength();
  if (window.getFrom() != 0)
    printer << " from " << window.getFrom();
}

/// `bytes 4096`, or the range of bytes: `bytes 4096 to 8192`.
static ParseResult parseByteRange(OpAsmParser &parser, IntegerAttr &bytes, IntegerAttr &begin) {
  int64_t first = 0, end = 0;
  if (parser.parseInteger(first))
    return failure();
  bytes = parser.getBuilder().getI64IntegerAttr(first);
  if (failed(parser.parseOptionalKeyword("to")))
    return success();
  if (parser.parseInteger(end))
    return failure();
  begin = bytes;
  bytes = parser.getBuilder().getI64IntegerAttr(int64_t(uint64_t(end) - uint64_t(first)));
  return success();
}

static void printByteRange(OpAsmPrinter &printer, Operation *, IntegerAttr bytes, IntegerAttr begin) {
  if (begin)
    printer << begin.getInt() << " to " << begin.getInt() + bytes.getInt();
  else
    printer << bytes.getInt();
}

template <typename PassOp> static LogicalResult verifyPass(PassOp op);
template <typename CollectiveOp> static LogicalResult verifyCollective(CollectiveOp op);

#include "dialects/pipe/PipeInterfaces.cpp.inc"

#define GET_OP_CLASSES
#include "dialects/pipe/PipeOps.cpp.inc"

//===----------------------------------------------------------------------===//
// Rules that several ops share
//===----------------------------------------------------------------------===//

LogicalResult pipec::pipe::verifyTime(Operation *op, StringRef what, int64_t time) {
  if (time < 0 || time > pipec::limits::kTime)
    return op->emitOpError() << "expected a " << what << " between 0 and " << pipec::limits::kTime << " ps, found "
                             << time;
  return success();
}

LogicalResult pipec::pipe::verifyBytes(Operation *op, StringRef what, std::optional<uint64_t> bytes, int64_t least) {
  if (bytes && (int64_t(*bytes) < least || int64_t(*bytes) > pipec::limits::kBytes))
    return op->emitOpError() << "expected '" << what << "' between " << least << " and " << pipec::limits::kBytes
                             << " bytes, found " << int64_t(*bytes);
  return success();
}

static LogicalResult verifyStage(Operation *op, int32_t stage) {
  if (stage < 0 || stage >= pipec::limits::kStages)
    return op->emitOpError() << "expected a stage between 0 and " << pipec::limits::kStages - 1 << ", found " << stage;
  return success();
}

static LogicalResult verifyMicrobatch(Operation *op, int32_t microbatch) {
  if (microbatch < 0 || microbatch >= pipec::limits::kMicrobatches)
    return op->emitOpError() << "expected a microbatch between 0 and " << pipec::limits::kMicrobatches - 1 << ", found "
                             << microbatch;
  return success();
}

/// A pass is in a block or in a program. In a program it has a microbatch, in a block with an interval a slot.
template <typename PassOp> static LogicalResult verifyLevel(PassOp op) {
  bool inBlock = isa_and_nonnull<BlockOp>(op->getParentOp());
  if (!inBlock && !isa_and_nonnull<ProgramOp, OverlappedOp>(op->getParentOp()))
    return op.emitOpError("expected to stand in a 'pipe.block' or a 'pipe.program'");
  if (inBlock && op.getMicrobatch())
    return op.emitOpError("expected no microbatch in a 'pipe.block'");
  if (op.getLayers() && !isa_and_nonnull<ProgramOp>(op->getParentOp()))
    return op.emitOpError("expected no layers: parts of a pass stand in a 'pipe.program', and in no pair");
  if (op.getWindow() && !isa_and_nonnull<ProgramOp>(op->getParentOp()))
    return op.emitOpError("expected no window: passes of a 'pipe.program' have one, and pairs as a whole");
  if (inBlock && op.getAt().has_value() !=
                     (plan::isOrdered(PassOp::kind()) && cast<BlockOp>(op->getParentOp()).getInterval().has_value()))
    return op.emitOpError("expected a slot ('at') in a 'pipe.block' with an interval, and none in one without");
  if (!inBlock && (op.getAt() || !op.getMicrobatch()))
    return op.emitOpError("expected a microbatch and no slot ('at') in a 'pipe.program'");
  return success();
}

namespace {
/// How many of the operands or results have each type.
struct Counts {
  unsigned tensors = 0, activations = 0, contexts = 0, inputs = 0, tokens = 0;
  explicit Counts(TypeRange types) {
    for (Type type : types) {
      tensors += isa<BufferType>(type);
      activations += isa<ActivationType>(type);
      contexts += isa<ContextType>(type);
      inputs += isa<InputType>(type);
      tokens += isa<TokenType>(type);
    }
  }
};
} // namespace

/// If a pass comes in parts, one part takes what its kind frees, and one yields what it holds; the other parts do
/// neither.
static bool isOtherPart(InstructionOpInterface op, const Counts &counts) {
  return op.layersOfStage() && counts.activations + counts.contexts + counts.inputs == 0;
}

/// What a pass takes: at most one tensor, exactly what its kind frees, any number of tokens.
static LogicalResult verifyTakes(Operation *op, unsigned frees) {
  const unsigned activations = (frees & plan::kActivation) != 0, contexts = (frees & plan::kContext) != 0;
  const unsigned most = contexts + ((frees & plan::kBackwardContext) != 0); // a B may have made none
  Counts taken(op->getOperandTypes());
  if (taken.tensors > 1)
    return op->emitOpError() << "expected at most one tensor as operand, found " << taken.tensors;
  if (isOtherPart(cast<InstructionOpInterface>(op), taken))
    return success();
  if (taken.activations != activations || taken.contexts < contexts || taken.contexts > most)
    return op->emitOpError() << "expected " << activations << " activation and " << contexts
                             << (most > contexts ? " or " + Twine(most) : Twine()) << " context as operands, found "
                             << taken.activations << " and " << taken.contexts;
  if (const unsigned inputs = (frees & plan::kInput) != 0; taken.inputs != inputs)
    return op->emitOpError() << "expected " << inputs << " input as operand, found " << taken.inputs;
  return success();
}

/// What a pass yields: at most one tensor and one token, and exactly what its kind holds. A kept input replaces the
/// rest.
static LogicalResult verifyYields(Operation *op, plan::Kind kind) {
  const unsigned holds = plan::takes(kind, firstOf<InputType>(op->getResults()) != nullptr);
  const unsigned activations = (holds & plan::kActivation) != 0, contexts = (holds & plan::kContext) != 0;
  const unsigned most = contexts + ((holds & plan::kBackwardContext) != 0);
  Counts yielded(op->getResultTypes());
  if (yielded.tensors > 1 || yielded.tokens > 1)
    return op->emitOpError() << "expected at most one tensor and one token as results, found " << yielded.tensors
                             << " and " << yielded.tokens;
  if (isOtherPart(cast<InstructionOpInterface>(op), yielded))
    return success();
  if (yielded.activations != activations || yielded.contexts < contexts || yielded.contexts > most)
    return op->emitOpError() << "expected " << activations << " activation and " << (most > contexts ? "at most " : "")
                             << most << " context as results, found " << yielded.activations << " and "
                             << yielded.contexts;
  if (const unsigned inputs = (holds & plan::kInput) != 0; yielded.inputs != inputs)
    return op->emitOpError() << "expected " << inputs << " input as result, found " << yielded.inputs;
  return success();
}

/// A pass takes what the forward of its own stage and microbatch, or that done again, keeps for it, and what the
/// backward for the input adds to the context; no other pass does.
template <typename PassOp> static LogicalResult verifyHeld(PassOp op) {
  for (Value value : op->getOperands()) {
    if (!isa<ActivationType, ContextType, InputType>(value.getType()))
      continue;
    auto keeper = dyn_cast_or_null<InstructionOpInterface>(sourceOf(value));
    const unsigned keeps = keeper ? plan::rowOf(keeper.kind()).holds & plan::rowOf(op.kind()).frees : 0;
    if (keeps == 0)
      return op.emitOpError("expected its activation and context to come from a 'pipe.forward'");
    if (keeper.stage() != int32_t(op.getStage()) ||
        keeper.microbatch() != (op.getMicrobatch() ? std::optional(int32_t(*op.getMicrobatch())) : std::nullopt)) {
      InFlightDiagnostic error = op.emitOpError("takes what another stage's or microbatch's forward keeps");
      error.attachNote(keeper->getLoc()) << "kept here";
      return error;
    }
    if (!value.hasOneUse())
      return op.emitOpError("takes what another pass takes too");
  }
  return success();
}

/// Whether `from`, which yields a tensor, is about this payload, stage and microbatch.
static bool isTensorOf(InstructionOpInterface from, plan::Payload payload, int32_t stage,
                       std::optional<int32_t> microbatch) {
  return from && payload != plan::Payload::None && from.payload() == payload && from.stage() == stage &&
         from.microbatch() == microbatch;
}

/// A pass takes the tensor that the neighbouring stage makes in the same direction and microbatch: from that stage's
/// pass, or from the receive of it.
static LogicalResult verifyFlow(InstructionOpInterface op) {
  Value tensor = firstOf<BufferType>(op->getOperands());
  if (!tensor)
    return success();
  const int32_t neighbour = op.stage() + (op.payload() == plan::Payload::Forward ? -1 : 1);
  Operation *from = sourceOf(tensor);
  auto instruction = dyn_cast_or_null<InstructionOpInterface>(from);
  const bool received = instruction && plan::receives(instruction.kind());
  if (isTensorOf(instruction, op.payload(), received ? op.stage() : neighbour, op.microbatch()))
    return success();
  InFlightDiagnostic error = op->emitOpError() << "expected its tensor to be that of stage " << neighbour
                                               << " in the same direction and microbatch";
  error.attachNote(from->getLoc()) << "it comes from here";
  return error;
}

/// All rules of a pass.
template <typename PassOp> static LogicalResult verifyPass(PassOp op) {
  const plan::KindRow &row = plan::rowOf(op.kind());
  return success(succeeded(verifyLevel(op)) && succeeded(verifyStage(op, op.getStage())) &&
                 (!op.getMicrobatch() || succeeded(verifyMicrobatch(op, *op.getMicrobatch()))) &&
                 succeeded(verifyTime(op, "cost", op.getCost())) && succeeded(verifyTakes(op, row.frees)) &&
                 succeeded(verifyYields(op, row.kind)) && succeeded(verifyHeld(op)) &&
                 succeeded(verifyFlow(cast<InstructionOpInterface>(op.getOperation()))));
}

//===----------------------------------------------------------------------===//
// Program level
//===----------------------------------------------------------------------===//

/// A program has at most one ring for each peer and direction, and none with its own rank.
static LogicalResult verifyRings(ProgramOp op) {
  if (!op.getRings())
    return success();
  std::set<std::pair<int32_t, bool>> seen;
  for (auto ring : op.getRings()->getAsRange<RingAttr>()) {
    if (uint32_t(ring.getPeer()) == op.getRank())
      return op.emitOpError("expected rings with other ranks, found one with its own");
    if (!seen.insert({ring.getPeer(), ring.getSends()}).second)
      return op.emitOpError() << "has two rings for what it " << (ring.getSends() ? "sends to" : "receives from")
                              << " rank " << ring.getPeer();
  }
  return success();
}

/// In a program with rings, the n-th transfer of a ring uses slot n modulo the ring's size. In one without, no transfer
/// has a slot.
template <typename TransferOp>
static LogicalResult verifySlot(TransferOp op, const std::map<std::pair<int32_t, bool>, RingAttr> &rings,
                                std::map<std::pair<int32_t, bool>, int64_t> &next, bool allocated, int64_t bytes) {
  bool sends = isa<SendOp>(op);
  auto key = std::pair(int32_t(op.getPeer()), sends);
  if (!allocated)
    return op.getSlot() ? op.emitOpError("has a slot, but its program has no rings") : LogicalResult::success();
  auto known = rings.find(key);
  if (known == rings.end())
    return op.emitOpError() << "expected a ring for what its program " << (sends ? "sends to" : "receives from")
                            << " rank " << key.first;
  RingAttr ring = known->second;
  int64_t slot = next[key]++ % ring.getSlots();
  if (!op.getSlot())
    return op.emitOpError() << "expected slot " << slot << " of its ring, found none";
  if (int64_t(*op.getSlot()) != slot)
    return op.emitOpError() << "expected slot " << slot << " of its ring, found " << int32_t(*op.getSlot());
  if (bytes > ring.getBytes())
    return op.emitOpError() << "carries " << bytes << " bytes, more than the " << ring.getBytes()
                            << " of a slot of its ring";
  return success();
}

/// Within a step everything is made before it is taken, except tokens, which may be those of the step before. Forwards
/// wait for such tokens, as their weights have been made by then, and so do collectives that the next step issues.
static LogicalResult verifyOrder(mlir::Block &step, Operation &op) {
  Operation *at = step.findAncestorOpInBlock(op); // the pair that contains it, or itself
  for (Value operand : op.getOperands()) {
    Operation *from = operand.getDefiningOp();
    if (!from || from->getBlock() != &step || (from != at && from->isBeforeInBlock(at)))
      continue;
    if (isa<TokenType>(operand.getType()) && at == &op &&
        isa<ForwardOp, AllReduceOp, ReduceScatterOp, AllGatherOp, ReshardOp>(op))
      continue;
    InFlightDiagnostic error = op.emitOpError("takes what is yielded behind it, which only a forward or a collective "
                                              "may, and only a token of the step before");
    error.attachNote(from->getLoc()) << "yielded here";
    return error;
  }
  return success();
}

LogicalResult ProgramOp::verifyRegions() {
  std::map<std::pair<int32_t, bool>, RingAttr> rings;
  std::map<std::pair<int32_t, bool>, int64_t> next;
  if (getRings())
    for (auto ring : getRings()->getAsRange<RingAttr>())
      rings[{ring.getPeer(), ring.getSends()}] = ring;
  const WalkResult ordered = getStep().walk([&](Operation *op) {
    return failed(verifyOrder(getStep().front(), *op)) ? WalkResult::interrupt() : WalkResult::advance();
  });
  if (ordered.wasInterrupted())
    return failure();
  for (Operation &op : getStep().front()) {
    if (auto send = dyn_cast<SendOp>(op)) {
      if (failed(verifySlot(send, rings, next, bool(getRings()), send.carried())))
        return failure();
    } else if (auto recv = dyn_cast<RecvOp>(op)) {
      if (failed(verifySlot(recv, rings, next, bool(getRings()), recv.carried())))
        return failure();
    }
  }
  return success();
}

/// Pieces of the rank's job fill waits of the compute queue.
static LogicalResult verifyWindow(ProgramOp program, InstructionOpInterface op) {
  if (!op.windowOfWait())
    return success();
  if (!program.getJob())
    return op->emitOpError("expected no window: the program has no job");
  if ((program.getFillWeights() && op.kind() == plan::Kind::BackwardWeight) ||
      (op.kind() == plan::Kind::Optimizer && op.layersOfStage()))
    return op->emitOpError("expected no window: it runs on a queue of its own");
  return success();
}

LogicalResult ProgramOp::verify() {
  if (int64_t(getRank()) >= limits::kRanks || int32_t(getRank()) < 0)
    return emitOpError() << "expected a rank between 0 and " << limits::kRanks - 1 << ", found " << int32_t(getRank());
  if (failed(verifyBytes(*this, "static_bytes", getStaticBytes())) ||
      failed(verifyBytes(*this, "workspace", getWorkspace())) ||
      failed(verifyBytes(*this, "memory_limit", getMemoryLimit(), 1)) || failed(verifyRings(*this)))
    return failure();
  for (int32_t stage : getStages().value_or(ArrayRef<int32_t>()))
    if (failed(verifyStage(*this, stage)))
      return failure();
  if (getJob().has_value() != getPiece().has_value() ||
      (getJob() && (int32_t(*getJob()) < 0 || int64_t(*getPiece()) < 1 || int64_t(*getPiece()) > limits::kTime)))
    return emitOpError() << "expected a job from 0 on and a piece of 1 atom or more, or neither";
  for (Region *region : {&getEnter(), &getLeave()})
    if (!region->front().empty())
      return emitOpError("work that crosses steps ('enter' and 'leave') is not supported yet");
  for (Operation &op : getStep().front()) {
    auto instruction = dyn_cast<InstructionOpInterface>(op);
    if (!instruction)
      return op.emitOpError("expected only passes, communication and optimizer steps in a 'pipe.program'");
    if (failed(verifyWindow(*this, instruction)))
      return failure();
  }
  return success();
}

ForwardOp OverlappedOp::forward() { return dyn_cast<ForwardOp>(getBody().front().front()); }
Operation *OverlappedOp::backward() { return getBody().front().front().getNextNode(); }

/// A pair is a forward and, after it, a backward that takes nothing of that forward. It takes no less time than the
/// longer of the two, and no more than both one after the other.
LogicalResult OverlappedOp::verify() {
  if (!isa_and_nonnull<ProgramOp>((*this)->getParentOp()))
    return emitOpError("expected to stand in a 'pipe.program'");
  mlir::Block &body = getBody().front();
  auto yield = body.empty() ? YieldOp() : dyn_cast<YieldOp>(body.back());
  if (!yield || std::distance(body.begin(), body.end()) != 3 || !forward() ||
      !isa<BackwardOp, BackwardInputOp>(backward()))
    return emitOpError("expected a forward, a backward and a 'pipe.yield'");
  if (llvm::any_of(backward()->getOperands(),
                   [&](Value taken) { return taken.getDefiningOp() == forward().getOperation(); }))
    return emitOpError("expected a backward that takes nothing of the forward, both start at once");
  SmallVector<Value> all(forward()->getResults());
  llvm::append_range(all, backward()->getResults());
  if (!llvm::equal(all, yield.getValues()) || TypeRange(yield.getValues()) != getOutputs().getTypes())
    return emitOpError("expected to hand out all that its two yield, in order");
  return success();
}

LogicalResult OverlappedOp::verifyRegions() {
  const auto first = int64_t(forward().getCost());
  const int64_t second = backward()->getAttrOfType<IntegerAttr>("cost").getInt();
  if (const auto cost = int64_t(getCost()); cost < std::max(first, second) || cost > first + second)
    return emitOpError() << "expected a cost between that of the longer of the two, " << std::max(first, second)
                         << " ps, and of one after the other, " << first + second << " ps, found " << cost;
  return success();
}

LogicalResult YieldOp::verify() { return success(); }

Operation *pipec::pipe::sourceOf(Value value) {
  Operation *op = value.getDefiningOp();
  auto pair = dyn_cast_or_null<OverlappedOp>(op);
  if (!pair || pair.getBody().front().empty())
    return op;
  auto yield = dyn_cast<YieldOp>(pair.getBody().front().back());
  const unsigned number = cast<OpResult>(value).getResultNumber();
  return yield && number < yield.getValues().size() ? yield.getValues()[number].getDefiningOp() : op;
}

template <typename TransferOp> static LogicalResult verifyTransfer(TransferOp op, unsigned tensors) {
  if (!isa_and_nonnull<ProgramOp>(op->getParentOp()))
    return op.emitOpError("expected to stand in a 'pipe.program'");
  if (failed(verifyStage(op, op.getStage())) || failed(verifyMicrobatch(op, op.getMicrobatch())) ||
      failed(verifyTime(op, "cost", op.getCost())) || failed(verifyTime(op, "latency", op.getLatency())))
    return failure();
  int32_t peer = op.getPeer();
  if (peer < 0 || peer >= pipec::limits::kRanks)
    return op.emitOpError() << "expected a peer between 0 and " << pipec::limits::kRanks - 1 << ", found " << peer;
  if (uint32_t(peer) == cast<ProgramOp>(op->getParentOp()).getRank())
    return op.emitOpError("expected another rank as its peer, found its own");
  if (op.getOf() == Payload::Backward && tensors == 1 && op.getStage() == 0)
    return op.emitOpError("sends a gradient from the first stage, which has no stage before it");
  if (op.getOf() == Payload::Forward && tensors == 0 && op.getStage() == 0)
    return op.emitOpError("receives an activation at the first stage, which has no stage before it");
  Counts taken(op->getOperandTypes());
  if (taken.tensors != tensors || taken.activations || taken.contexts || taken.inputs)
    return op.emitOpError() << "expected " << (tensors ? "one tensor and otherwise " : "") << "only tokens as operands";
  return success();
}

/// A send sends what the pass of its stage and microbatch yields.
static LogicalResult verifySent(SendOp op) {
  Operation *from = sourceOf(firstOf<BufferType>(op.getInputs()));
  auto pass = dyn_cast_or_null<InstructionOpInterface>(from);
  if (pass && plan::isCompute(pass.kind()) && isTensorOf(pass, op.payload(), op.stage(), op.microbatch()))
    return success();
  InFlightDiagnostic error = op.emitOpError()
                             << "expected the tensor of its stage's "
                             << (op.getOf() == Payload::Forward ? "forward" : "backward") << " of this microbatch";
  error.attachNote(from->getLoc()) << "it comes from here";
  return error;
}

int64_t SendOp::carried() { return cast<BufferType>(firstOf<BufferType>(getInputs()).getType()).getBytes(); }
int64_t RecvOp::carried() { return getTensor().getType().getBytes(); }

LogicalResult SendOp::verify() { return success(succeeded(verifyTransfer(*this, 1)) && succeeded(verifySent(*this))); }
LogicalResult RecvOp::verify() { return verifyTransfer(*this, 0); }

/// A group of ranks: two or more, ascending, its own among them.
static LogicalResult verifyMembers(Operation *op, ArrayRef<int32_t> ranks) {
  if (ranks.size() < 2 || ranks.front() < 0 || ranks.back() >= pipec::limits::kRanks ||
      std::adjacent_find(ranks.begin(), ranks.end(), std::greater_equal()) != ranks.end())
    return op->emitOpError() << "expected two or more ranks between 0 and " << pipec::limits::kRanks - 1
                             << ", ascending, found [" << ranks << "]";
  if (!llvm::is_contained(ranks, int32_t(cast<ProgramOp>(op->getParentOp()).getRank())))
    return op->emitOpError("expected its own rank among its ranks");
  return success();
}

/// Replicas, and ranks that share a stage, sum and gather bytes of some layers of one stage. The number of all
/// processes, ranks times replicas, is within its limit.
template <typename CollectiveOp> static LogicalResult verifyReplicas(CollectiveOp op) {
  const bool ofReplicas = op.getReplicas().has_value();
  const bool ofLayers =
      ofReplicas || op.getOf() == Shared::Shared || (op.getRanks() && op.getOf() == Shared::Gradients && op.getStage());
  if (op.getStage().has_value() != ofLayers || bool(op.getLayers()) != ofLayers ||
      op.getBegin().has_value() != ofLayers)
    return op.emitOpError(
        "expected a stage, layers and a range of bytes with 'replicas', all three or none over ranks, and "
        "none of them else");
  if (!ofLayers)
    return success();
  if (!ofReplicas)
    return success(succeeded(verifyStage(op, *op.getStage())) && succeeded(verifyBytes(op, "begin", op.getBegin())));
  const auto rank = int64_t(cast<ProgramOp>(op->getParentOp()).getRank());
  if (const auto replicas = int64_t(int32_t(*op.getReplicas()));
      replicas < 2 || (rank + 1) * replicas > pipec::limits::kRanks)
    return op.emitOpError() << "expected 2 replicas or more, and at most " << pipec::limits::kRanks
                            << " processes, found " << replicas << " on rank " << rank;
  if (failed(verifyStage(op, *op.getStage())))
    return failure();
  return verifyBytes(op, "begin", op.getBegin());
}

/// Checks what is summed or gathered, and over which processes.
template <typename CollectiveOp> static LogicalResult verifyShared(CollectiveOp op) {
  const bool mayBeAll = CollectiveOp::kind() == plan::Kind::AllReduce;
  if (mayBeAll && op.getOf() == Shared::Norm && (op.getRanks() || op.getReplicas()))
    return op.emitOpError("expected a norm over all ranks");
  if (op.getOf() == Shared::Weights && CollectiveOp::kind() != plan::Kind::AllGather)
    return op.emitOpError("expected a sum of gradients or of a norm, found one of weights");
  if (!mayBeAll && (op.getOf() == Shared::Norm || op.getRanks() || !op.getReplicas()))
    return op.emitOpError("expected gradients or weights of 'replicas'");
  if (op.getOf() == Shared::Shared && (!mayBeAll || !op.getRanks() || op.getReplicas()))
    return op.emitOpError("expected an all-reduce over ranks, found another of a shared weight");
  if (mayBeAll && op.getOf() == Shared::Gradients && op.getRanks().has_value() == op.getReplicas().has_value())
    return op.emitOpError("expected the ranks that gradients are summed over, or the replicas");
  return success();
}

template <typename CollectiveOp> static LogicalResult verifyCollective(CollectiveOp op) {
  if (!isa_and_nonnull<ProgramOp>(op->getParentOp()))
    return op.emitOpError("expected to stand in a 'pipe.program'");
  if (failed(verifyShared(op)) || (op.getRanks() && failed(verifyMembers(op, *op.getRanks()))) ||
      failed(verifyReplicas(op)))
    return failure();
  return success(succeeded(verifyTime(op, "cost", op.getCost())) && succeeded(verifyBytes(op, "bytes", op.getBytes())));
}

LogicalResult ReshardOp::verify() {
  if (!isa_and_nonnull<ProgramOp>((*this)->getParentOp()))
    return emitOpError("expected to stand in a 'pipe.program'");
  if (failed(verifyStage(*this, getStage())) || failed(verifyMembers(*this, getRanks())))
    return failure();
  return success(succeeded(verifyTime(*this, "cost", getCost())) && succeeded(verifyBytes(*this, "bytes", getBytes())));
}

LogicalResult OptimizerStepOp::verify() {
  if (!isa_and_nonnull<ProgramOp>((*this)->getParentOp()))
    return emitOpError("expected to stand in a 'pipe.program'");
  return success(succeeded(verifyStage(*this, getStage())) && succeeded(verifyTime(*this, "cost", getCost())));
}
