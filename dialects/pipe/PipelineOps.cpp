// Verifiers of the design level (a pipeline and its block), one function a rule.
#include "dialects/pipe/Verify.h"

#include "runtime/plan/Limits.h"

using namespace mlir;
using namespace pipec::pipe;

BlockOp PipelineOp::block() { return cast<BlockOp>(getBody().front().front()); }

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
  if (failed(verifyOrders(*this)))
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
    if (auto instruction = dyn_cast<InstructionOpInterface>(op); !instruction || !plan::isCompute(instruction.kind()))
      return op.emitOpError("expected only passes of stages in a 'pipe.block'");
  return success();
}
