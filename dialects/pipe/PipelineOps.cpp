// Verifiers of the design level (a pipeline and its block), one function per rule.
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

static LogicalResult verifyReplicas(PipelineOp op) {
  if (op.getReplicas() && op.getReplicas()->getLayers().size() != op.getPlacement().size())
    return op.emitOpError() << "expected replicas with the layers of each of its " << op.getPlacement().size()
                            << " stages, found those of " << op.getReplicas()->getLayers().size();
  return success();
}

/// A rank's collectives are about layers of its own stages.
static LogicalResult verifyCollective(PipelineOp op, int32_t rank, CollectiveAttr collective) {
  const int32_t stage = collective.getStage();
  if (stage >= int32_t(op.getPlacement().size()) || op.getPlacement()[size_t(stage)] != rank)
    return op.emitOpError() << "expected collectives of rank " << rank << " about its own stages, found stage "
                            << stage;
  const size_t layers = cast<ArrayAttr>(op.getReplicas()->getLayers()[size_t(stage)]).size();
  if (size_t(collective.getEnd()) > layers)
    return op.emitOpError() << "expected collectives about layers 0 to " << layers << " of stage " << stage
                            << ", found " << collective.getFirst() << " to " << collective.getEnd();
  return success();
}

static LogicalResult verifyExchange(PipelineOp op) {
  if (!op.getExchange())
    return success();
  if (!op.getReplicas())
    return op.emitOpError("expected replicas where there is an exchange");
  const ExchangeAttr exchange = *op.getExchange();
  if (int64_t(exchange.getQueues().size()) != op.ranks() ||
      (exchange.getTails() && exchange.getTails().size() != op.ranks()))
    return op.emitOpError() << "expected an exchange of each of its " << op.ranks() << " ranks, found one of "
                            << exchange.getQueues().size();
  for (const auto [rank, queue] : llvm::enumerate(exchange.getQueues().getAsRange<ArrayAttr>()))
    for (auto collective : queue.getAsRange<CollectiveAttr>())
      if (failed(verifyCollective(op, int32_t(rank), collective)))
        return failure();
  return success();
}

/// The figures of shards cover all processes and stages.
static LogicalResult verifyShards(PipelineOp op) {
  if (!op.getShards())
    return success();
  const ShardsAttr shards = *op.getShards();
  if (op.getReplicas())
    return op.emitOpError("expected replicas or shards, found both");
  if (shards.getFactors().size() != int64_t(op.ranks()) * shards.getCount())
    return op.emitOpError() << "expected shards with a factor for each of " << op.ranks() << " x " << shards.getCount()
                            << " processes, found " << shards.getFactors().size();
  if (shards.getStages().size() != op.getPlacement().size())
    return op.emitOpError() << "expected shards with each of its " << op.getPlacement().size()
                            << " stages, found those of " << shards.getStages().size();
  return success();
}

/// Jobs run on existing ranks, which must have no shards.
static LogicalResult verifyJobs(PipelineOp op) {
  if (!op.getJobs())
    return success();
  if (op.getShards())
    return op.emitOpError("expected jobs or shards, found both");
  for (auto job : op.getJobs()->getWork().getAsRange<JobAttr>())
    if (const DenseI32ArrayAttr ranks = job.getRanks(); ranks && ranks.asArrayRef().back() >= op.ranks())
      return op.emitOpError() << "expected jobs on its ranks, 0 to " << op.ranks() - 1 << ", found one on rank "
                              << ranks.asArrayRef().back();
  return success();
}

LogicalResult PipelineOp::verify() {
  if (failed(verifyOrders(*this)) || failed(verifyReplicas(*this)) || failed(verifyExchange(*this)) ||
      failed(verifyShards(*this)) || failed(verifyJobs(*this)))
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
