// pipe-insert-communication: sends and receives for what flows between ranks, in one order of all transfers.
#include "compiler/passes/Passes.h"
#include "compiler/passes/Programs.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/TypeSwitch.h"

namespace pipec {
#define GEN_PASS_DEF_INSERTCOMMUNICATION
#include "compiler/passes/Passes.h.inc"
} // namespace pipec

using namespace mlir;
using namespace pipec;
using namespace pipec::pipe;

namespace {

struct PassAttributes {
  IntegerAttr stage, microbatch;
};
PassAttributes attributes(Operation *op) {
  return llvm::TypeSwitch<Operation *, PassAttributes>(op).Case<ForwardOp, BackwardOp, BackwardInputOp>(
      [](auto pass) -> PassAttributes { return {pass.getStageAttr(), pass.getMicrobatchAttr()}; });
}

struct InsertCommunicationPass : pipec::impl::InsertCommunicationBase<InsertCommunicationPass> {
  void runOnOperation() override {
    PipelineOp pipeline = findPipeline(getOperation());
    if (!pipeline)
      return signalPassFailure();
    auto programs = findPrograms(getOperation());
    if (failed(programs))
      return signalPassFailure();
    Dependences dependences;
    Nodes nodes;
    if (Operation *transfer = addWords(*programs, dependences, nodes)) {
      transfer->emitError("expected programs without communication");
      return signalPassFailure();
    }
    if (failed(findTransfers(dependences, nodes)))
      return signalPassFailure();
    std::vector<Graph::Node> order;
    if (!dependences.graph.sort(order)) {
      reportCycle(dependences, order);
      return signalPassFailure();
    }
    createOps(pipeline, dependences);
    arrange(*programs, dependences, order);
  }

  /// A transfer for each F that is not on the rank of the F before it, and the same for backwards.
  LogicalResult findTransfers(Dependences &dependences, const Nodes &nodes) {
    // (stage, microbatch) → pass, forwards and backwards apart.
    llvm::DenseMap<std::pair<int32_t, int32_t>, size_t> forwards, backwards;
    for (size_t n = 0; n != dependences.passes.size(); ++n) {
      Operation *op = dependences.passes[n];
      auto key = std::pair(stageOf(op), microbatchOf(op));
      bool isNew = true;
      if (isa<ForwardOp>(op))
        isNew = forwards.try_emplace(key, n).second;
      else if (isa<BackwardOp, BackwardInputOp>(op))
        isNew = backwards.try_emplace(key, n).second;
      if (!isNew)
        return op->emitError() << nameOf(op) << " stands twice";
    }
    size_t count = dependences.passes.size();
    for (size_t n = 0; n != count; ++n) {
      Operation *producer = dependences.passes[n];
      bool forward = isa<ForwardOp>(producer);
      if (!firstOf<BufferType>(producer->getResults()))
        continue;
      auto &map = forward ? forwards : backwards;
      auto consumer = map.find({stageOf(producer) + (forward ? 1 : -1), microbatchOf(producer)});
      if (consumer == map.end())
        return producer->emitError() << nameOf(producer) << " yields a tensor that no stage takes";
      int32_t from = dependences.rankOf[n], to = dependences.rankOf[consumer->second];
      if (from != to)
        addTransfer(dependences, nodes, {{}, {}, producer, dependences.passes[consumer->second], from, to});
    }
    return success();
  }

  void createOps(PipelineOp pipeline, Dependences &dependences) {
    schedule::Problem problem = problemOf(pipeline);
    MLIRContext *context = &getContext();
    mlir::Builder builder(context);
    OperationName sendName(SendOp::getOperationName(), context), recvName(RecvOp::getOperationName(), context);
    Type token = TokenType::get(context);
    auto noAttributes = DictionaryAttr::get(context);
    // Nothing is uniqued in the loop but what a (pair, type) is met for the first time.
    struct Hop {
      IntegerAttr cost, latency, from, to;
    };
    llvm::DenseMap<std::tuple<int32_t, int32_t, Type>, Hop> hops;
    auto hopOf = [&](const Transfer &transfer, Type type) -> Hop {
      auto known = hops.find({transfer.from, transfer.to, type});
      if (known != hops.end())
        return known->second;
      const schedule::Link &link = problem.linkBetween(transfer.from, transfer.to);
      Hop hop{builder.getI64IntegerAttr(schedule::wireTime(cast<BufferType>(type).getBytes(), link.bandwidth)),
              builder.getI64IntegerAttr(link.latency), builder.getI32IntegerAttr(transfer.from),
              builder.getI32IntegerAttr(transfer.to)};
      hops[{transfer.from, transfer.to, type}] = hop;
      return hop;
    };
    auto payloads =
        std::array{PayloadAttr::get(context, Payload::Forward), PayloadAttr::get(context, Payload::Backward)};

    for (Transfer &transfer : dependences.transfers) {
      Operation *producer = transfer.producer, *consumer = transfer.consumer;
      Value tensor = firstOf<BufferType>(producer->getResults());
      Hop hop = hopOf(transfer, tensor.getType());
      PayloadAttr of = payloads[isa<ForwardOp>(producer) ? 0 : 1];
      SendOp::Properties send;
      send.of = of;
      send.stage = attributes(producer).stage;
      send.microbatch = attributes(producer).microbatch;
      send.peer = hop.to;
      send.cost = hop.cost;
      send.latency = hop.latency;
      transfer.send = cast<SendOp>(Operation::create(producer->getLoc(), sendName, token, tensor, noAttributes,
                                                     OpaqueProperties(&send), BlockRange(), 0));
      producer->getBlock()->push_back(transfer.send);
      RecvOp::Properties recv;
      recv.of = of;
      recv.stage = attributes(consumer).stage;
      recv.microbatch = send.microbatch;
      recv.peer = hop.from;
      recv.cost = hop.cost;
      recv.latency = hop.latency;
      transfer.recv = cast<RecvOp>(Operation::create(consumer->getLoc(), recvName, tensor.getType(), ValueRange(),
                                                     noAttributes, OpaqueProperties(&recv), BlockRange(), 0));
      consumer->getBlock()->push_back(transfer.recv);
      consumer->insertOperands(consumer->getNumOperands(), transfer.recv.getTensor());
    }
  }
};

} // namespace
