// Verifiers of the design level, a pipeline and its block, one function a rule.
#include "dialects/pipe/Verify.h"

#include "runtime/plan/Limits.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallBitVector.h"

using namespace mlir;
using namespace pipec::pipe;

int32_t PipelineOp::ranks() {
  int32_t largest = -1;
  for (int32_t rank : getPlacement())
    largest = std::max(largest, rank);
  return largest + 1;
}

BlockOp PipelineOp::block() { return cast<BlockOp>(getBody().front().front()); }

static LogicalResult verifyPlacement(PipelineOp op) {
  if (op.getPlacement().empty() || int64_t(op.getPlacement().size()) > pipec::limits::kStages)
    return op.emitOpError() << "expected between 1 and " << pipec::limits::kStages << " stages in the placement, found "
                            << op.getPlacement().size();
  for (int32_t rank : op.getPlacement())
    if (rank < 0 || rank >= pipec::limits::kRanks)
      return op.emitOpError() << "expected ranks between 0 and " << pipec::limits::kRanks - 1
                              << " in the placement, found " << rank;
  llvm::SmallBitVector used(unsigned(op.ranks()));
  for (int32_t rank : op.getPlacement())
    used.set(unsigned(rank));
  if (!used.all())
    return op.emitOpError() << "expected every rank to hold a stage, found none on rank " << used.find_first_unset();
  return success();
}

/// The default link names no ranks; an exception two of the pipeline's, each pair once.
static LogicalResult verifyLinks(PipelineOp op) {
  if (op.getLink().getFrom() != -1)
    return op.emitOpError() << "expected the default link to be from -1 to -1, found " << op.getLink().getFrom()
                            << " to " << op.getLink().getTo();
  if (!op.getLinks())
    return success();
  llvm::DenseSet<std::pair<int32_t, int32_t>> seen;
  for (auto link : op.getLinks()->getAsRange<LinkAttr>()) {
    if (link.getFrom() < 0 || link.getFrom() >= op.ranks() || link.getTo() >= op.ranks())
      return op.emitOpError() << "expected links between ranks 0 and " << op.ranks() - 1 << ", found " << link.getFrom()
                              << " to " << link.getTo();
    if (!seen.insert({link.getFrom(), link.getTo()}).second)
      return op.emitOpError() << "has two links from " << link.getFrom() << " to " << link.getTo();
  }
  return success();
}

template <typename Values>
static LogicalResult verifyList(PipelineOp op, StringRef name, std::optional<Values> values, size_t size, int64_t most,
                                int64_t least = 0) {
  if (!values)
    return success();
  if (values->size() != size)
    return op.emitOpError() << "expected " << size << " values in '" << name << "', found " << values->size();
  for (int64_t value : *values)
    if (value < least || value > most)
      return op.emitOpError() << "expected values between " << least << " and " << most << " in '" << name
                              << "', found " << value;
  return success();
}

int32_t PipelineOp::before(int32_t stage) {
  return stage % (int32_t(getPlacement().size()) / int32_t(getCopies().value_or(1))) == 0 ? -1 : stage - 1;
}

int32_t PipelineOp::after(int32_t stage) {
  return (stage + 1) % (int32_t(getPlacement().size()) / int32_t(getCopies().value_or(1))) == 0 ? -1 : stage + 1;
}

/// One copy or two of equally many stages; whole groups and slices. What else must hold of them is the schedule's.
static LogicalResult verifyCopies(PipelineOp op) {
  int32_t copies = int32_t(op.getCopies().value_or(1));
  if (copies < 1 || copies > 2 || op.getPlacement().size() % size_t(copies) != 0)
    return op.emitOpError() << "expected one copy of its stages or two equal ones, found " << op.getPlacement().size()
                            << " stages of " << copies;
  for (auto [name, value] : {std::pair("slices", op.getSlices()), std::pair("backward_group", op.getBackwardGroup())})
    if (int64_t count = int32_t(value.value_or(1)); count < 1 || count > pipec::limits::kMicrobatches)
      return op.emitOpError() << "expected '" << name << "' between 1 and " << pipec::limits::kMicrobatches
                              << ", found " << count;
  return success();
}

bool PipelineOp::placesTransfers() {
  return getOrders() &&
         llvm::any_of(getOrders()->getAsRange<OrderAttr>(), [](OrderAttr order) { return order.hasTransfers(); });
}

static LogicalResult verifyOrders(PipelineOp op) {
  if (op.getOrders() && int64_t(op.getOrders()->size()) != op.ranks())
    return op.emitOpError() << "expected an order for each of its " << op.ranks() << " ranks, found "
                            << op.getOrders()->size();
  return success();
}

LogicalResult PipelineOp::verify() {
  if (failed(verifyPlacement(*this)) || failed(verifyCopies(*this)))
    return failure();
  if (getMicrobatches() < 1 || int64_t(getMicrobatches()) > pipec::limits::kMicrobatches)
    return emitOpError() << "expected between 1 and " << pipec::limits::kMicrobatches << " microbatches, found "
                         << int32_t(getMicrobatches());
  size_t ranks = size_t(this->ranks());
  if (failed(verifyLinks(*this)) || failed(verifyBytes(*this, "memory_limit", getMemoryLimit(), 1)) ||
      failed(verifyList(*this, "optimizer", getOptimizer(), getPlacement().size(), limits::kTime)) ||
      failed(verifyList(*this, "gradients", getGradients(), getPlacement().size(), limits::kBytes)) ||
      failed(verifyList(*this, "overlapped", getOverlapped(), getPlacement().size(), limits::kTime, -1)) ||
      failed(verifyList(*this, "static_bytes", getStaticBytes(), ranks, limits::kBytes)) ||
      failed(verifyList(*this, "workspace", getWorkspace(), ranks, limits::kBytes)) ||
      failed(verifyTime(*this, "global_norm", int64_t(getGlobalNorm().value_or(0)))) || failed(verifyOrders(*this)))
    return failure();
  Block &body = getBody().front();
  if (!llvm::hasSingleElement(body) || !isa<BlockOp>(body.front()))
    return emitOpError("expected exactly one 'pipe.block' as its body");
  return success();
}

LogicalResult BlockOp::verify() {
  if (auto interval = getInterval(); interval && (int64_t(*interval) < 1 || int64_t(*interval) > limits::kTime))
    return emitOpError() << "expected a positive interval, found " << int64_t(*interval);
  for (Operation &op : getBody().front())
    if (!isa<ForwardOp, BackwardOp, BackwardInputOp, BackwardWeightOp>(op))
      return op.emitOpError("expected only passes of stages in a 'pipe.block'");
  return success();
}
