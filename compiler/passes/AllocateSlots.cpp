// pipe-allocate-slots: rings as large as the predicted run holds at once, and the waits of their reuse (design, section
// 5).
#include "compiler/passes/Lowered.h"
#include "compiler/passes/Passes.h"
#include "compiler/passes/Programs.h"

#include "mlir/IR/Builders.h"

#include <algorithm>
#include <map>

namespace pipec {
#define GEN_PASS_DEF_ALLOCATESLOTS
#include "compiler/passes/Passes.h.inc"
} // namespace pipec

using namespace mlir;
using namespace pipec;
using namespace pipec::pipe;

namespace {

/// Steps of a predicted run, and runs: with the costs as they are, and with none of zero.
constexpr size_t kSteps = 3, kRuns = 2;

/// One end of a directed pair: its transfers in order, and when the predicted runs hold a buffer for each.
struct RingPlan {
  struct Use {
    Operation *first; // whose start takes the buffer
    Operation *last;  // whose end frees it
    Operation *transfer;
    std::array<plan::Time, kSteps * kRuns> from{}, to{}; // of each predicted step
  };
  std::vector<Use> uses;
  int64_t bytes = 0;
  uint32_t size = 1;
  uint32_t unlimited = 1; // what the size would be without a memory limit

  /// The least size at which no use waits for another in the predicted runs: buffers come free in order.
  void choose() {
    size = 1;
    for (size_t step = 0; step != kSteps * kRuns; ++step) {
      std::vector<plan::Time> earliest(uses.size()); // of this use's start and all later ones
      for (size_t n = uses.size(); n-- != 0;)
        earliest[n] = n + 1 == uses.size() ? uses[n].from[step] : std::min(uses[n].from[step], earliest[n + 1]);
      size_t next = 0;
      for (size_t n = 0; n != uses.size(); ++n) {
        next = std::max(next, n + 1);
        while (next != uses.size() && earliest[next] < uses[n].to[step])
          ++next;
        size = std::max(size, uint32_t(next - n));
      }
    }
    while (size < uses.size() && !crossesSteps())
      ++size;
    unlimited = size;
  }

private:
  bool crossesSteps() const {
    for (size_t step = 0; step != kSteps * kRuns; ++step)
      for (size_t n = 0; step % kSteps + 1 != kSteps && n != size; ++n) {
        size_t lastUser = n + (uses.size() - 1 - n) / size * size;
        if (uses[n].from[step + 1] < uses[lastUser].to[step])
          return false;
      }
    return true;
  }
};

using RingKey = std::pair<int32_t, bool>; // peer, sends
using Rings = std::map<RingKey, RingPlan>;

struct AllocateSlotsPass : pipec::impl::AllocateSlotsBase<AllocateSlotsPass> {
  void runOnOperation() override {
    auto programs = findPrograms(getOperation());
    if (failed(programs))
      return signalPassFailure();
    std::vector<Rings> rings(programs->size());
    for (size_t rank = 0; rank != programs->size(); ++rank)
      if (failed(collect((*programs)[rank], rings[rank])))
        return signalPassFailure();
    if (!predict(*programs, rings))
      return; // It stops even with unlimited buffers: check-deadlock says why.
    for (size_t rank = 0; rank != programs->size(); ++rank)
      if (failed(assign((*programs)[rank], rings[rank])))
        return signalPassFailure();
    if (failed(settleOrder(*programs, rings)))
      return signalPassFailure();
  }

  LogicalResult collect(ProgramOp program, Rings &rings) {
    if (program.getRings())
      return program.emitError("expected a program without slots");
    for (Operation &op : program.getStep().front()) {
      if (auto send = dyn_cast<SendOp>(op)) {
        Value tensor = firstOf<BufferType>(send.getInputs());
        if (!tensor.getDefiningOp())
          return send.emitError("expected what it sends to come from a pass");
        RingPlan &ring = rings[{int32_t(send.getPeer()), true}];
        ring.bytes = std::max(ring.bytes, cast<BufferType>(tensor.getType()).getBytes());
        ring.uses.push_back({tensor.getDefiningOp(), &op, &op});
      } else if (auto recv = dyn_cast<RecvOp>(op)) {
        if (!recv.getTensor().hasOneUse())
          return recv.emitError("expected one pass that takes what it receives");
        RingPlan &ring = rings[{int32_t(recv.getPeer()), false}];
        ring.bytes = std::max(ring.bytes, recv.getTensor().getType().getBytes());
        ring.uses.push_back({&op, *recv.getTensor().user_begin(), &op});
      }
    }
    return success();
  }

  /// Runs with unlimited buffers and sizes every ring by it; false if it stops.
  bool predict(const std::vector<ProgramOp> &programs, std::vector<Rings> &rings) {
    Lowering lowering = lower(programs);
    simulate::Result result;
    if (!run(lowering, 0, rings, result))
      return false;
    // Passes that take no time would leave the order of a reuse to chance; a picosecond does not.
    bool anyFree = false;
    for (plan::Program &program : lowering.variant.programs)
      for (plan::Operation &operation : program.operations)
        if (plan::isCompute(operation.kind) && operation.cost == 0) {
          operation.cost = 1;
          anyFree = true;
        }
    if (anyFree && !run(lowering, 1, rings, result))
      return false;
    for (size_t rank = 0; rank != programs.size(); ++rank) {
      for (auto &[key, ring] : rings[rank])
        ring.choose();
      fit(programs[rank], result.ranks[rank].peakActivation, rings[rank]);
    }
    return true;
  }

  /// One predicted run: when each buffer is taken and comes free. False if it stops.
  bool run(const Lowering &lowering, size_t number, std::vector<Rings> &rings, simulate::Result &result) {
    // By rank and instruction: the times to fill in.
    struct Times {
      plan::Time *from = nullptr, *to = nullptr, *alsoTo = nullptr;
    };
    std::vector<std::vector<Times>> times(rings.size());
    for (size_t rank = 0; rank != rings.size(); ++rank) {
      llvm::DenseMap<Operation *, size_t> index;
      for (size_t i = 0; i != lowering.ops[rank].size(); ++i)
        index[lowering.ops[rank][i]] = i;
      times[rank].resize(lowering.ops[rank].size());
      for (auto &[key, ring] : rings[rank])
        for (RingPlan::Use &use : ring.uses) {
          times[rank][index[use.first]].from = &use.from[number * kSteps];
          Times &last = times[rank][index[use.last]];
          (last.to ? last.alsoTo : last.to) = &use.to[number * kSteps];
        }
    }
    simulate::Options options;
    options.steps = int64_t(kSteps);
    options.observe = [&](const simulate::Event &event) {
      Times &known = times[size_t(event.rank)][event.instruction];
      if (known.from)
        known.from[event.step] = event.start;
      // A send's buffer is free when its wire is, a received one when its pass ends.
      if (known.to)
        known.to[event.step] = event.end;
      if (known.alsoTo)
        known.alsoTo[event.step] = event.end;
    };
    return simulate::simulate(lowering.variant, options, result).ok();
  }

  /// Takes slots away, from the ring with most bytes first, until the rank is within its limit.
  void fit(ProgramOp program, int64_t peakActivation, Rings &rings) {
    if (!program.getMemoryLimit())
      return;
    int64_t room = int64_t(*program.getMemoryLimit()) - int64_t(program.getStaticBytes().value_or(0)) -
                   int64_t(program.getWorkspace().value_or(0)) - peakActivation;
    auto total = [&] {
      __int128 sum = 0;
      for (auto &[key, ring] : rings)
        sum += __int128(ring.size) * ring.bytes;
      return sum;
    };
    __int128 bytes = total();
    while (bytes > room) {
      RingPlan *most = nullptr;
      for (auto &[key, ring] : rings)
        if (ring.size > 1 && (!most || __int128(ring.size) * ring.bytes > __int128(most->size) * most->bytes))
          most = &ring;
      if (!most || most->bytes == 0)
        return; // check-memory says what is missing
      --most->size;
      bytes -= most->bytes;
    }
  }

  /// Slots, rings and the tokens of reuse.
  LogicalResult assign(ProgramOp program, Rings &rings) {
    mlir::Builder builder(&getContext());
    std::vector<Attribute> attributes;
    for (auto &[key, ring] : rings) {
      attributes.push_back(RingAttr::get(&getContext(), key.second, key.first, int32_t(ring.size), ring.bytes));
      numSlots += ring.size;
      std::vector<IntegerAttr> slots;
      for (uint32_t slot = 0; slot != ring.size; ++slot)
        slots.push_back(builder.getI32IntegerAttr(int32_t(slot)));
      for (size_t n = 0; n != ring.uses.size(); ++n) {
        RingPlan::Use &use = ring.uses[n];
        if (key.second)
          cast<SendOp>(use.transfer).setSlotAttr(slots[n % ring.size]);
        else
          cast<RecvOp>(use.transfer).setSlotAttr(slots[n % ring.size]);
        if (n < ring.size)
          continue;
        Value token = firstOf<TokenType>(ring.uses[n - ring.size].last->getResults());
        if (!token)
          return ring.uses[n - ring.size].last->emitError(
              "expected a token among its results: it takes what was received");
        use.first->insertOperands(use.first->getNumOperands(), token);
      }
    }
    program.setRingsAttr(builder.getArrayAttr(attributes));
    return success();
  }

  /// Puts every rank's ops in an order in which a token's use stands after its definition. Queues keep theirs; where
  /// reuse forbids that, only the transfers of each directed pair do.
  LogicalResult settleOrder(const std::vector<ProgramOp> &programs, const std::vector<Rings> &rings) {
    for (bool pairsAlone : {false, true}) {
      Dependences dependences;
      Nodes nodes;
      addWords(programs, dependences, nodes);
      if (failed(addTransfers(programs, dependences, nodes)))
        return failure();
      for (size_t t = 0; t != dependences.transfers.size(); ++t) {
        nodes[dependences.transfers[t].send] = dependences.nodeOf(t);
        nodes[dependences.transfers[t].recv] = dependences.nodeOf(t);
      }
      for (const Rings &own : rings)
        for (const auto &[key, ring] : own)
          for (size_t n = ring.size; n < ring.uses.size(); ++n)
            dependences.graph.edge(nodes.lookup(ring.uses[n - ring.size].last), nodes.lookup(ring.uses[n].first));
      for (ProgramOp program : programs)
        keepOrder(program, pairsAlone ? Communicator::PerEdge : program.getCommunicator(), dependences, nodes);
      std::vector<Graph::Node> order;
      if (dependences.graph.sort(order))
        return arrange(programs, dependences, order), success();
      if (!pairsAlone)
        continue;
      InFlightDiagnostic error = reportCycle(dependences, order);
      explainLimit(error, programs, rings);
    }
    return failure();
  }

  /// Edges between the transfers that share a queue.
  void keepOrder(ProgramOp program, Communicator communicator, Dependences &dependences, const Nodes &nodes) {
    std::map<std::pair<int32_t, int>, Graph::Node> last;
    for (Operation &op : program.getStep().front()) {
      if (!isa<SendOp, RecvOp>(op))
        continue;
      auto send = dyn_cast<SendOp>(op);
      int32_t peer = int32_t(send ? send.getPeer() : cast<RecvOp>(op).getPeer());
      std::pair<int32_t, int> queue(communicator == Communicator::Shared ? -1 : peer,
                                    communicator == Communicator::PerEdge ? (send ? 1 : 2) : 0);
      Graph::Node node = nodes.lookup(&op);
      auto [it, isNew] = last.try_emplace(queue, node);
      if (!isNew)
        dependences.graph.edge(std::exchange(it->second, node), node);
    }
  }

  /// Where the memory limit took slots away, that is why the programs wait for each other.
  void explainLimit(InFlightDiagnostic &error, const std::vector<ProgramOp> &programs,
                    const std::vector<Rings> &rings) {
    for (size_t rank = 0; rank != programs.size(); ++rank)
      for (const auto &[key, ring] : rings[rank])
        if (ring.size < ring.unlimited) {
          error.attachNote(ProgramOp(programs[rank]).getLoc())
              << "the memory limit leaves rank " << rank << " " << ring.size << " of the " << ring.unlimited
              << " transfer buffers " << (key.second ? "to" : "from") << " rank " << key.first
              << "; a higher limit ends the wait";
          return;
        }
  }
};

} // namespace
