// pipe-overlap-communication: the order of transfers that share a queue, with the simulator as its judge.
#include "compiler/passes/Dependences.h"
#include "compiler/passes/Lowered.h"
#include "compiler/passes/Passes.h"

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
    Streams &streams = getAnalysis<Streams>();
    if (!streams.valid || failed(streams.checkPeers()))
      return signalPassFailure();
    markAnalysesPreserved<Streams>();
    if (llvm::all_of(streams.ranks, [](const Stream &stream) {
          return ProgramOp(stream.program).getCommunicator() == Communicator::PerEdge;
        }))
      return markAllAnalysesPreserved();

    std::optional<plan::Time> before = makespan(streams);
    Streams other = streams;
    if (failed(orderByTime(other)))
      return signalPassFailure();
    std::optional<plan::Time> after = makespan(other);
    if (!after || (before && *after >= *before))
      return;
    streams = std::move(other);
    for (size_t rank = 0; rank != streams.ranks.size(); ++rank)
      streams.moveOps(rank);
  }

  /// Nothing if the programs stop.
  std::optional<plan::Time> makespan(const Streams &streams) {
    simulate::Result result;
    if (!simulate::simulate(lower(streams), {}, result).ok())
      return std::nullopt;
    return result.makespan;
  }

  /// The order in which passes and transfers start when no two pairs share a queue. Starts follow the dependences;
  /// where they are equal, the order of the dependence graph decides.
  LogicalResult orderByTime(Streams &streams) {
    if (failed(streams.match()))
      return failure();
    plan::Variant variant = lower(streams, {.communicator = Communicator::PerEdge});
    std::vector<std::vector<plan::Time>> starts;
    for (const Stream &stream : streams.ranks)
      starts.emplace_back(stream.records.size());
    simulate::Options options;
    options.observe = [&](const simulate::Event &event) {
      starts[size_t(event.rank)][size_t(event.index)] = event.start;
    };
    simulate::Result result;
    if (!simulate::simulate(variant, options, result).ok())
      return success(); // check-deadlock says why

    Dependences dependences(streams);
    std::vector<Graph::Node> order;
    if (!dependences.sort(order))
      return dependences.report(streams, order), failure();
    auto startOf = [&](Graph::Node node) {
      if (dependences.isTransfer(node)) {
        const Transfer &transfer = streams.transfers[dependences.transferAt(node)];
        return starts[size_t(transfer.from)][transfer.send];
      }
      auto [rank, record] = dependences.placeOf(node);
      return starts[rank][record];
    };
    // By place in the graph's order where starts are equal.
    std::vector<std::tuple<plan::Time, size_t, Graph::Node>> byStart;
    for (Graph::Node node : order)
      byStart.emplace_back(startOf(node), byStart.size(), node);
    std::sort(byStart.begin(), byStart.end());
    for (size_t i = 0; i != order.size(); ++i)
      order[i] = std::get<Graph::Node>(byStart[i]);
    dependences.arrange(streams, order);
    return success();
  }
};

} // namespace
