// pipe-allocate-slots: rings as large as the predicted run holds at once, and the waits of their reuse (design, section
// 5).
#include "compiler/passes/Lowered.h"
#include "compiler/passes/Passes.h"
#include "compiler/passes/Rings.h"
#include "compiler/program/Dependences.h"
#include "compiler/schedule/evaluate/Buffers.h"

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

struct AllocateSlotsPass : pipec::impl::AllocateSlotsBase<AllocateSlotsPass> {
  void runOnOperation() override {
    Streams &streams = getAnalysis<Streams>();
    if (!streams.valid || failed(streams.checkPeers()))
      return signalPassFailure();
    markAnalysesPreserved<Streams>();
    std::vector<Rings> rings(streams.ranks.size());
    for (size_t rank = 0; rank != rings.size(); ++rank)
      if (failed(collect(streams.ranks[rank], rings[rank])))
        return signalPassFailure();
    if (!predict(streams, rings))
      return; // It stops even with unlimited buffers: check-deadlock says why.
    if (failed(order(streams, rings)))
      return signalPassFailure();
    for (size_t rank = 0; rank != rings.size(); ++rank)
      if (failed(assign(streams.ranks[rank], rings[rank])))
        return signalPassFailure();
  }

  std::vector<__int128> room; // of each rank for buffers, under the limit
  /// Whether every queue counts an instruction's completion when the predicted run says that the instruction ends. A
  /// queue that holds both directions may count the end of a send only later, with the arrival of a receive before the
  /// send.
  bool endsInOrder = true;

  /// Finds an order of all ops for the rings' sizes. First the sizes that the predicted run takes, or that the limit
  /// leaves; if no order exists for these, sizes with which the words are known to run to their end, under the least
  /// limit that holds them; at last the sizes of the run without a limit. Where that needs more than the limit,
  /// check-memory says so.
  LogicalResult order(Streams &streams, std::vector<Rings> &rings) {
    auto inOrder = [&] {
      return llvm::all_of(rings, [](const Rings &own) {
        return llvm::all_of(own, [](const auto &entry) { return entry.second.inOrder(); });
      });
    };
    if (inOrder() || succeeded(settleOrder(streams, rings, /*report=*/false)))
      return success();
    streams.predicted.reset();
    raise(streams, rings);
    if (inOrder() || succeeded(settleOrder(streams, rings, /*report=*/false)))
      return success();
    for (Rings &own : rings)
      for (auto &[key, ring] : own)
        ring.size = ring.unlimited;
    return settleOrder(streams, rings, /*report=*/true);
  }

  LogicalResult collect(const Stream &stream, Rings &rings) {
    ProgramOp program = stream.program;
    if (program.getRings())
      return program.emitError("expected a program without slots");
    std::vector<RingPlan *> ringOf(stream.operations.size(), nullptr);
    for (size_t o = 0; o != stream.operations.size(); ++o)
      if (const plan::Operation &operation = stream.operations[o]; plan::isTransfer(operation.kind)) {
        ringOf[o] = &rings[{operation.peer, operation.kind == plan::Kind::Send}];
        ringOf[o]->bytes = std::max(ringOf[o]->bytes, operation.bytes);
      }
    for (uint32_t i = 0; i != stream.records.size(); ++i) {
      const Record &record = stream.records[i];
      RingPlan *ring = ringOf[record.operation];
      if (!ring)
        continue;
      bool sends = stream.kind(record) == plan::Kind::Send;
      if (sends && record.in == kNone)
        return stream.emitError(i) << "expected what it sends to come from a pass";
      if (!sends && record.out == kNone)
        return stream.emitError(i) << "expected one pass that takes what it receives";
      ring->uses.push_back(sends ? RingPlan::Use{record.in, i, i} : RingPlan::Use{i, record.out, i});
    }
    return success();
  }

  /// Runs with unlimited buffers and sizes every ring by it; false if it stops.
  bool predict(Streams &streams, std::vector<Rings> &rings) {
    plan::Variant variant = lower(streams, {.communicator = std::nullopt, .kept = false});
    simulate::Result result;
    if (!run(variant, rings, result))
      return false;
    // Passes that take no time would leave the order of a reuse to chance; a picosecond does not.
    bool anyFree = false;
    for (plan::Program &program : variant.programs)
      for (plan::Operation &operation : program.operations)
        if ((plan::isCompute(operation.kind) || operation.kind == plan::Kind::Overlapped) && operation.cost == 0) {
          operation.cost = 1;
          anyFree = true;
        }
    simulate::Result ignored;
    if (anyFree && !run(variant, rings, ignored))
      return false;
    room.assign(rings.size(), std::numeric_limits<int64_t>::max());
    for (size_t rank = 0; rank != rings.size(); ++rank)
      if (ProgramOp program = streams.ranks[rank].program; program.getMemoryLimit())
        room[rank] = __int128(*program.getMemoryLimit()) - program.getStaticBytes().value_or(0) -
                     program.getWorkspace().value_or(0) - result.ranks[rank].peakActivation;
    if (llvm::any_of(llvm::zip(rings, room), [](auto each) { return bytesOf(std::get<0>(each)) > std::get<1>(each); }))
      findLeast(streams, rings);
    for (size_t rank = 0; rank != rings.size(); ++rank)
      fit(rings[rank], room[rank]); // check-memory says what is missing
    // When deferred W run depends on what else is ready, so such programs are walked again.
    auto defers = [](const Stream &stream) { return ProgramOp(stream.program).getFillWeights(); };
    if (result.repeats && endsInOrder && llvm::all_of(rings, [](const Rings &own) { return neverWaitedFor(own); }) &&
        llvm::none_of(streams.ranks, defers)) {
      const std::vector<plan::Time> &ends = result.ranks.front().lastEnd;
      streams.predicted = {result.makespan, ends[ends.size() - 1] - ends[ends.size() - 2]};
    }
    return true;
  }

  static bool neverWaitedFor(const Rings &rings) {
    return llvm::all_of(
        rings, [](const auto &entry) { return entry.second.size == entry.second.unlimited && !entry.second.heldUp; });
  }

  /// Sets each ring's `least`: slots with which the words run to their end, for memory that does not hold all that the
  /// predicted run would take. Returns how many bytes these slots lack on the rank that lacks most; at least 0. The
  /// slots depend on how the ranks' rooms compare, so a higher limit for all ranks gives the same.
  __int128 findLeast(const Streams &streams, std::vector<Rings> &rings) {
    PipelineOp pipeline = findPipeline(getOperation());
    if (!pipeline)
      return 0;
    const schedule::Problem problem = problemOf(pipeline);
    const schedule::Words words = wordsOf(streams);
    if (!schedule::verify(problem, words).empty())
      return 0;
    const schedule::Buffers buffers = schedule::buffersFor(problem, words, room);
    for (const auto &[end, count] : buffers)
      if (const auto found = rings[size_t(end.rank)].find({end.peer, end.sends});
          found != rings[size_t(end.rank)].end())
        found->second.least = uint32_t(count);
    __int128 most = 0;
    const std::vector<__int128> needed = schedule::bytesOf(problem, buffers);
    for (size_t rank = 0; rank != needed.size(); ++rank)
      most = std::max(most, needed[rank] - room[rank]);
    return most;
  }

  /// Makes rings no smaller than their `least`, and as large as the limit allows, or the least higher limit that holds
  /// these.
  void raise(const Streams &streams, std::vector<Rings> &rings) {
    const __int128 lacking = findLeast(streams, rings);
    for (size_t rank = 0; rank != rings.size(); ++rank) {
      for (auto &[key, ring] : rings[rank])
        ring.size = std::max(ring.unlimited, ring.least);
      fit(rings[rank], room[rank] + lacking);
    }
  }

  /// Runs the variant once and grows all rings by that run. False if it stops.
  bool run(const plan::Variant &variant, std::vector<Rings> &rings, simulate::Result &result) {
    simulate::Options options;
    options.steps = 3;
    options.untilRepeats = true;
    options.keepTimes = true;
    if (!simulate::simulate(variant, options, result).ok())
      return false;
    endsInOrder &= !result.overtaken;
    // A send ends when its wire is free, and so is its buffer then; a received one when the pass that takes it ends.
    for (size_t rank = 0; rank != rings.size(); ++rank) {
      for (auto &[key, ring] : rings[rank])
        ring.grow(result.ranks[rank].times);
      result.ranks[rank].times = {};
    }
    return true;
  }

  /// Writes slots, rings and the tokens of reuse into the program.
  LogicalResult assign(Stream &stream, const Rings &rings) {
    mlir::Builder builder(&getContext());
    std::vector<Attribute> attributes;
    for (auto &[key, ring] : rings) {
      attributes.push_back(RingAttr::get(&getContext(), key.second, key.first, int32_t(ring.size), ring.bytes));
      std::vector<IntegerAttr> slots;
      for (uint32_t slot = 0; slot != ring.size; ++slot)
        slots.push_back(builder.getI32IntegerAttr(int32_t(slot)));
      for (size_t n = ring.size; n < ring.uses.size(); ++n)
        stream.uses.push_back({ring.uses[n].first, ring.uses[n - ring.size].last});
      for (size_t n = 0; stream.hasOps() && n != ring.uses.size(); ++n) {
        const RingPlan::Use &use = ring.uses[n];
        Operation *transfer = stream.ops[use.transfer];
        if (key.second)
          cast<SendOp>(transfer).setSlotAttr(slots[n % ring.size]);
        else
          cast<RecvOp>(transfer).setSlotAttr(slots[n % ring.size]);
        if (n < ring.size)
          continue;
        Operation *last = stream.ops[ring.uses[n - ring.size].last];
        Value token = firstOf<TokenType>(last->getResults());
        if (!token)
          return last->emitError("expected a token among its results: it takes what was received");
        Operation *first = stream.ops[use.first];
        first->insertOperands(first->getNumOperands(), token);
      }
    }
    stream.sortUses();
    ProgramOp(stream.program).setRingsAttr(builder.getArrayAttr(attributes));
    return success();
  }

  /// Puts every rank's ops in an order in which a token's use stands after its definition. Queues keep the order of
  /// their transfers; where reuse forbids that, only the transfers of each directed pair keep theirs.
  LogicalResult settleOrder(Streams &streams, std::vector<Rings> &rings, bool report) {
    if (failed(streams.match()))
      return failure();
    for (bool pairsAlone : {false, true}) {
      Dependences dependences(streams);
      for (size_t rank = 0; rank != rings.size(); ++rank) {
        for (const auto &[key, ring] : rings[rank])
          for (size_t n = ring.size; n < ring.uses.size(); ++n)
            dependences.edge(dependences.nodeOf(rank, ring.uses[n - ring.size].last),
                             dependences.nodeOf(rank, ring.uses[n].first));
        keepOrder(streams.ranks[rank], rank, pairsAlone, dependences);
      }
      std::vector<Graph::Node> order;
      if (dependences.sort(order)) {
        dependences.arrange(streams, order);
        if (pairsAlone || llvm::any_of(streams.ranks, queuesAllReduce))
          streams.predicted.reset();
        for (size_t rank = 0; rank != rings.size(); ++rank) {
          streams.moveOps(rank);
          for (auto &[key, ring] : rings[rank])
            ring.uses.clear();
          if (failed(collect(streams.ranks[rank], rings[rank])))
            return failure();
        }
        return success();
      }
      if (!pairsAlone || !report)
        continue;
      dependences.report(streams, order);
    }
    return failure();
  }

  /// Whether an all-reduce shares a queue with transfers, among which it may move.
  static bool queuesAllReduce(const Stream &stream) {
    return ProgramOp(stream.program).getCommunicator() == Communicator::Shared &&
           llvm::any_of(stream.operations, [](const auto &each) { return each.kind == plan::Kind::AllReduce; });
  }

  /// Edges between the transfers that share a queue.
  void keepOrder(const Stream &stream, size_t rank, bool pairsAlone, Dependences &dependences) {
    Communicator communicator = pairsAlone ? Communicator::PerEdge : ProgramOp(stream.program).getCommunicator();
    std::map<std::pair<int32_t, int>, Graph::Node> last;
    for (uint32_t i = 0; i != stream.records.size(); ++i) {
      const plan::Operation &operation = stream.of(stream.records[i]);
      if (!plan::isTransfer(operation.kind))
        continue;
      Graph::Node node = dependences.nodeOf(rank, i);
      auto [it, isNew] =
          last.try_emplace(queueKey(communicator, operation.peer, operation.kind == plan::Kind::Send), node);
      if (!isNew)
        dependences.edge(std::exchange(it->second, node), node);
    }
  }
};

} // namespace
