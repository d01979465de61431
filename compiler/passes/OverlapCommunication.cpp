// pipe-overlap-communication: the order of transfers that share a queue, with the simulator as its judge.
#include "compiler/passes/Lowered.h"
#include "compiler/passes/Passes.h"
#include "compiler/passes/Programs.h"

#include <algorithm>
#include <tuple>

namespace pipec {
#define GEN_PASS_DEF_OVERLAPCOMMUNICATION
#include "compiler/passes/Passes.h.inc"
} // namespace pipec

using namespace mlir;
using namespace pipec;
using namespace pipec::pipe;

namespace {

struct OverlapCommunicationPass : pipec::impl::OverlapCommunicationBase<OverlapCommunicationPass> {
  void runOnOperation() override {
    auto programs = findPrograms(getOperation());
    if (failed(programs))
      return signalPassFailure();
    if (llvm::all_of(*programs, [](ProgramOp program) { return program.getCommunicator() == Communicator::PerEdge; }))
      return markAllAnalysesPreserved();

    std::optional<plan::Time> before = makespan(*programs);
    std::vector<Operation *> original = ops(*programs);
    if (failed(orderByTime(*programs)))
      return signalPassFailure();
    std::optional<plan::Time> after = makespan(*programs);
    if (after && (!before || *after < *before))
      return;
    for (Operation *op : original)
      op->moveBefore(op->getBlock(), op->getBlock()->end());
  }

  /// Nothing if the programs stop.
  std::optional<plan::Time> makespan(const std::vector<ProgramOp> &programs) {
    Lowering lowering = lower(programs);
    simulate::Result result;
    if (!simulate::simulate(lowering.variant, {}, result).ok())
      return std::nullopt;
    return result.makespan;
  }

  std::vector<Operation *> ops(const std::vector<ProgramOp> &programs) {
    std::vector<Operation *> all;
    for (ProgramOp program : programs)
      for (Operation &op : program.getStep().front())
        all.push_back(&op);
    return all;
  }

  /// The order in which passes and transfers start when no two pairs share a queue. Starts follow the dependences;
  /// where they are equal, the order of the dependence graph decides.
  LogicalResult orderByTime(const std::vector<ProgramOp> &programs) {
    Lowering lowering = lower(programs, {.communicator = Communicator::PerEdge, .unlimitedBuffers = false});
    if (failed(checkPeers(lowering)))
      return failure();
    llvm::DenseMap<Operation *, plan::Time> starts;
    simulate::Options options;
    options.observe = [&](const simulate::Event &event) {
      starts[lowering.ops[size_t(event.rank)][event.instruction]] = event.start;
    };
    simulate::Result result;
    if (!simulate::simulate(lowering.variant, options, result).ok())
      return success(); // check-deadlock says why

    Dependences dependences;
    Nodes nodes;
    addWords(programs, dependences, nodes);
    if (failed(addTransfers(programs, dependences, nodes)))
      return failure();
    std::vector<Graph::Node> order;
    if (!dependences.graph.sort(order))
      return reportCycle(dependences, order), failure();
    std::vector<std::tuple<plan::Time, size_t, Graph::Node>>
        byStart; // by place in the graph's order where starts are equal
    for (Graph::Node node : order)
      byStart.emplace_back(starts.lookup(dependences.isTransfer(node) ? dependences.transferAt(node).send.getOperation()
                                                                      : dependences.passes[node]),
                           byStart.size(), node);
    std::sort(byStart.begin(), byStart.end());
    for (size_t i = 0; i != order.size(); ++i)
      order[i] = std::get<Graph::Node>(byStart[i]);
    arrange(programs, dependences, order);
    return success();
  }
};

} // namespace
