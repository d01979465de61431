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

constexpr size_t kSteps = 3; // of a predicted run

/// When one rank's instructions start and end in a predicted run.
struct Times {
  std::array<std::vector<plan::Time>, kSteps> start, end; // by step and instruction
};

/// One end of a directed pair: its transfers in order, and who holds a buffer for each.
struct RingPlan {
  struct Use {
    Operation *first; // whose start takes the buffer
    Operation *last;  // whose end frees it
    Operation *transfer;
    uint32_t firstAt = 0, lastAt = 0; // the instructions of these
  };
  std::vector<Use> uses;
  int64_t bytes = 0;
  uint32_t size = 1;
  uint32_t unlimited = 1; // what the size would be without a memory limit

  /// Grows to the least size at which no use waits for another in this run: buffers come free in order.
  void grow(const Times &times) {
    for (size_t step = 0; step != kSteps; ++step) {
      const auto &start = times.start[step], &end = times.end[step];
      std::vector<plan::Time> earliest(uses.size()); // of this use's start and all later ones
      for (size_t n = uses.size(); n-- != 0;)
        earliest[n] = n + 1 == uses.size() ? start[uses[n].firstAt] : std::min(start[uses[n].firstAt], earliest[n + 1]);
      size_t next = 0;
      for (size_t n = 0; n != uses.size(); ++n) {
        next = std::max(next, n + 1);
        while (next != uses.size() && earliest[next] < end[uses[n].lastAt])
          ++next;
        size = std::max(size, uint32_t(next - n));
      }
    }
    while (size < uses.size() && !crossesSteps(times))
      size = std::min(uint32_t(uses.size()), size + 1 + size / 8);
    unlimited = size;
  }

private:
  /// Whether each slot is free when the next step takes it over.
  bool crossesSteps(const Times &times) const {
    for (size_t step = 0; step + 1 != kSteps; ++step)
      for (size_t n = 0; n != size; ++n) {
        size_t lastUser = n + (uses.size() - 1 - n) / size * size;
        if (times.start[step + 1][uses[n].firstAt] < times.end[step][uses[lastUser].lastAt])
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
    Lowering lowering = lower(*programs);
    if (failed(checkPeers(lowering)))
      return signalPassFailure();
    if (!predict(*programs, lowering, rings))
      return; // It stops even with unlimited buffers: check-deadlock says why.
    if (failed(order(*programs, rings)))
      return signalPassFailure();
    for (size_t rank = 0; rank != programs->size(); ++rank)
      if (failed(assign((*programs)[rank], rings[rank])))
        return signalPassFailure();
  }

  /// Where a rank is over its limit and one slot a ring would make a cycle besides, all rings are as large as without a
  /// limit: check-memory then speaks of the limit.
  LogicalResult order(const std::vector<ProgramOp> &programs, std::vector<Rings> &rings) {
    if (inOrder(rings) || succeeded(settleOrder(programs, rings, /*report=*/!overLimit)))
      return success();
    if (!overLimit)
      return failure();
    for (Rings &own : rings)
      for (auto &[key, ring] : own)
        ring.size = ring.unlimited;
    return success(inOrder(rings) || succeeded(settleOrder(programs, rings, /*report=*/true)));
  }

  bool overLimit = false; // a rank is over its limit with one slot a ring

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
        ring.uses.push_back({.first = tensor.getDefiningOp(), .last = &op, .transfer = &op});
      } else if (auto recv = dyn_cast<RecvOp>(op)) {
        if (!recv.getTensor().hasOneUse())
          return recv.emitError("expected one pass that takes what it receives");
        RingPlan &ring = rings[{int32_t(recv.getPeer()), false}];
        ring.bytes = std::max(ring.bytes, recv.getTensor().getType().getBytes());
        ring.uses.push_back({.first = &op, .last = *recv.getTensor().user_begin(), .transfer = &op});
      }
    }
    return success();
  }

  /// Runs with unlimited buffers and sizes every ring by it; false if it stops.
  bool predict(const std::vector<ProgramOp> &programs, Lowering &lowering, std::vector<Rings> &rings) {
    for (size_t rank = 0; rank != programs.size(); ++rank)
      for (auto &[key, ring] : rings[rank])
        for (RingPlan::Use &use : ring.uses) {
          use.firstAt = lowering.index[rank].lookup(use.first);
          use.lastAt = lowering.index[rank].lookup(use.last);
        }
    simulate::Result result;
    if (!run(lowering, rings, result))
      return false;
    // Passes that take no time would leave the order of a reuse to chance; a picosecond does not.
    bool anyFree = false;
    for (plan::Program &program : lowering.variant.programs)
      for (plan::Operation &operation : program.operations)
        if (plan::isCompute(operation.kind) && operation.cost == 0) {
          operation.cost = 1;
          anyFree = true;
        }
    simulate::Result ignored;
    if (anyFree && !run(lowering, rings, ignored))
      return false;
    for (size_t rank = 0; rank != programs.size(); ++rank)
      fit(programs[rank], result.ranks[rank].peakActivation, rings[rank]);
    return true;
  }

  /// Whether every slot's next use stands behind its last one already.
  static bool inOrder(const std::vector<Rings> &rings) {
    for (const Rings &own : rings)
      for (const auto &[key, ring] : own)
        for (size_t n = ring.size; n < ring.uses.size(); ++n)
          if (ring.uses[n - ring.size].lastAt >= ring.uses[n].firstAt)
            return false;
    return true;
  }

  /// One predicted run, by which all rings grow. False if it stops.
  bool run(const Lowering &lowering, std::vector<Rings> &rings, simulate::Result &result) {
    std::vector<Times> times(rings.size());
    for (size_t rank = 0; rank != rings.size(); ++rank)
      for (size_t step = 0; step != kSteps; ++step) {
        times[rank].start[step].resize(lowering.ops[rank].size());
        times[rank].end[step].resize(lowering.ops[rank].size());
      }
    simulate::Options options;
    options.steps = int64_t(kSteps);
    // A send ends when its wire is free, and so is its buffer then; a received one when the pass that takes it ends.
    options.observe = [&](const simulate::Event &event) {
      times[size_t(event.rank)].start[size_t(event.step)][event.instruction] = event.start;
      times[size_t(event.rank)].end[size_t(event.step)][event.instruction] = event.end;
    };
    if (!simulate::simulate(lowering.variant, options, result).ok())
      return false;
    for (size_t rank = 0; rank != rings.size(); ++rank)
      for (auto &[key, ring] : rings[rank])
        ring.grow(times[rank]);
    return true;
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
      if (!most || most->bytes == 0) { // check-memory says what is missing
        overLimit = true;
        return;
      }
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
  LogicalResult settleOrder(const std::vector<ProgramOp> &programs, const std::vector<Rings> &rings, bool report) {
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
      if (!pairsAlone || !report)
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
      std::pair<int32_t, int> queue = queueKey(communicator, peer, bool(send));
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
