// pipe-allocate-slots: makes rings as large as the predicted run needs at once, or any run, and adds the waits of their
// reuse.
#include "compiler/passes/Passes.h"
#include "compiler/passes/Rings.h"
#include "compiler/program/Dependences.h"
#include "compiler/schedule/evaluate/Buffers.h"
#include "runtime/simulate/InFlight.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>

using namespace mlir;

namespace pipec {

using namespace pipe;

namespace {

class Allocation {
public:
  Allocation(ProgramSet &set, PipelineOp known) : set(set), pipeline(known), rings(set.ranks()) {}

  LogicalResult run(bool widens) {
    for (size_t rank = 0; rank != rings.size(); ++rank)
      if (failed(collect(set.programs[rank], rings[rank])))
        return failure();
    if (!predict())
      return success(); // It stops even with unlimited buffers: check-deadlock says why.
    if (failed(order()))
      return failure();
    if (widens)
      holdAny();
    for (size_t rank = 0; rank != rings.size(); ++rank)
      assign(set.programs[rank], rings[rank]);
    return success();
  }

private:
  ProgramSet &set;
  PipelineOp pipeline;        // null: not known
  std::vector<Rings> rings;   // by rank
  std::vector<__int128> room; // by rank, bytes that the memory limit leaves for rings
  /// Whether, in the predicted run, every queue counts the completion of an instruction at the instruction's end. A
  /// queue that holds both directions may count the end of a send only later, with the arrival of a receive before the
  /// send.
  bool endsInOrder = true;

  /// Finds an order of all instructions for the sizes of the rings. It tries three sizes: those that predict() chose;
  /// then sizes with which the words are known to run to their end, under the least limit that holds them; at last
  /// those of the run without a limit. Where the rings need more than the limit, check-memory says so.
  LogicalResult order() {
    auto inOrder = [&] {
      return llvm::all_of(rings, [](const Rings &own) {
        return llvm::all_of(own, [](const auto &entry) { return entry.second.inOrder(); });
      });
    };
    if (inOrder() || succeeded(settleOrder(/*report=*/false)))
      return success();
    set.predicted.reset();
    raise();
    if (inOrder() || succeeded(settleOrder(/*report=*/false)))
      return success();
    for (Rings &own : rings)
      for (auto &[key, ring] : own)
        ring.size = ring.unlimited;
    return settleOrder(/*report=*/true);
  }

  /// Lets rings grow to what any timing has in flight, as far as the memory limit leaves room.
  void holdAny() {
    std::vector<std::vector<simulate::Flight>> flights;
    if (!simulate::inFlight(lower(set, {.kept = false}), flights).ok())
      return; // check-deadlock says why
    for (size_t rank = 0; rank != rings.size(); ++rank) {
      Rings wider = rings[rank];
      for (const simulate::Flight &flight : flights[rank]) {
        RingPlan &ring = wider.at({flight.peer, flight.direction == plan::Direction::Send});
        ring.over = flight.over;
        ring.drained = flight.isDrained();
        ring.wanted = flight.freeSize(ring.size).value_or(flight.transfers);
      }
      widen(wider, room[rank]);
      // Of some sizes in between, slots may be freed in another order than they are taken.
      for (auto &[key, ring] : rings[rank]) {
        RingPlan &other = wider.at(key);
        other.size = other.inOrder() ? other.size : ring.size;
        ring = std::move(other);
      }
    }
  }

  static LogicalResult collect(const Program &program, Rings &rings) {
    if (program.rings)
      return mlir::emitError(program.place) << "expected a program without slots";
    std::vector<RingPlan *> ringOf(program.operations.size(), nullptr);
    for (size_t o = 0; o != program.operations.size(); ++o)
      if (const plan::Operation &operation = program.operations[o]; plan::isTransfer(operation.kind)) {
        ringOf[o] = &rings[{operation.peer, plan::sends(operation.kind)}];
        ringOf[o]->bytes = std::max(ringOf[o]->bytes, operation.bytes);
      }
    for (uint32_t i = 0; i != program.instructions.size(); ++i) {
      const Instruction &own = program.instructions[i];
      RingPlan *ring = ringOf[own.operation];
      if (!ring)
        continue;
      bool sends = plan::sends(program.kind(own));
      ring->uses.push_back(sends ? RingPlan::Use{own.in, i, i} : RingPlan::Use{i, own.out, i});
    }
    return success();
  }

  /// Simulates with unlimited buffers and chooses the size of every ring: what that run needs, less what does not fit
  /// the memory limit. False if the run stops.
  bool predict() {
    plan::Variant variant = lower(set, {.kept = false});
    simulate::Result result;
    if (!run(variant, result))
      return false;
    // If passes take no time, the run does not say in which order slots are freed. So run again, with a picosecond
    // each.
    bool anyFree = false;
    for (plan::Program &program : variant.programs)
      for (plan::Operation &operation : program.operations)
        if ((plan::isCompute(operation.kind) || plan::isHeader(operation.kind)) && operation.cost == 0) {
          operation.cost = 1;
          anyFree = true;
        }
    simulate::Result ignored;
    if (anyFree && !run(variant, ignored))
      return false;
    room.assign(rings.size(), std::numeric_limits<int64_t>::max());
    for (size_t rank = 0; rank != rings.size(); ++rank)
      if (const Program &program = set.programs[rank]; program.memoryLimit)
        room[rank] = __int128(*program.memoryLimit) - program.staticBytes - program.workspace -
                     fullestOf(variant, result, rank).peakActivation;
    if (llvm::any_of(llvm::zip(rings, room), [](auto each) { return bytesOf(std::get<0>(each)) > std::get<1>(each); }))
      findLeast();
    for (size_t rank = 0; rank != rings.size(); ++rank)
      fit(rings[rank], room[rank]); // check-memory says what is missing
    // When deferred W (weights = fill) run depends on what else is ready, and so on rings. Such programs are walked
    // again.
    auto defers = [](const Program &program) { return program.fillsWeights; };
    if (result.repeats && endsInOrder && llvm::all_of(rings, [](const Rings &own) { return neverWaitedFor(own); }) &&
        llvm::none_of(set.programs, defers)) {
      const std::vector<plan::Time> &ends = result.places.front().lastEnd;
      set.predicted = {result.makespan, ends[ends.size() - 1] - ends[ends.size() - 2]};
    }
    return true;
  }

  static bool neverWaitedFor(const Rings &rings) {
    return llvm::all_of(
        rings, [](const auto &entry) { return entry.second.size == entry.second.unlimited && !entry.second.heldUp; });
  }

  /// Sets each ring's `least`: a size with which the words run to their end, for memory that does not hold all that the
  /// predicted run needs. Returns how many bytes these sizes need beyond its room on the rank that lacks most, or 0.
  /// The sizes depend only on how the ranks' rooms compare: a limit that is higher by as much for all gives the same.
  __int128 findLeast() {
    if (!pipeline)
      return 0;
    const schedule::Problem problem = problemOf(pipeline);
    const schedule::Words words = wordsOf(set);
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

  /// Makes each ring as large as the memory limit allows, and no smaller than its `least`. If the limit does not hold
  /// these, it is raised for all ranks by as little as does.
  void raise() {
    const __int128 lacking = findLeast();
    for (size_t rank = 0; rank != rings.size(); ++rank) {
      for (auto &[key, ring] : rings[rank])
        ring.size = std::max(ring.unlimited, ring.least);
      fit(rings[rank], room[rank] + lacking);
    }
  }

  /// Simulates the variant and grows all rings to what that run needs. False if the run stops.
  bool run(const plan::Variant &variant, simulate::Result &result) {
    simulate::Options options;
    options.steps = 3;
    options.untilRepeats = true;
    options.keepTimes = true;
    if (!simulate::simulate(variant, options, result).ok())
      return false;
    endsInOrder &= !result.overtaken;
    // RingPlan::Use says which end frees a slot: that of the send, or that of the pass that takes what was received.
    const auto shards = size_t(variant.shards());
    for (size_t place = 0; place != result.places.size(); ++place) {
      for (auto &[key, ring] : rings[place / shards])
        ring.grow(result.places[place].times);
      result.places[place].times = {};
    }
    return true;
  }

  /// Writes the rings into the program, and a use for each reuse of a slot.
  static void assign(Program &program, const Rings &rings) {
    program.rings.emplace();
    for (const auto &[key, ring] : rings) {
      program.rings->push_back(
          {{key.first, key.second ? plan::Direction::Send : plan::Direction::Recv, ring.size, ring.bytes},
           ring.drained});
      for (const auto &[user, definition] : ring.reuses())
        program.uses.push_back({user, definition});
    }
    program.sortUses();
  }

  /// Puts every rank's instructions in an order in which each use of a slot stands behind the last. Queues keep the
  /// order of their transfers. Where there is no such order, only the transfers of each directed pair keep theirs. An
  /// error is emitted only if `report`.
  LogicalResult settleOrder(bool report) {
    for (bool pairsAlone : {false, true}) {
      Dependences dependences(set);
      for (size_t rank = 0; rank != rings.size(); ++rank) {
        for (const auto &[key, ring] : rings[rank])
          for (size_t n = ring.size; n < ring.uses.size(); ++n)
            dependences.edge(dependences.nodeOf(rank, ring.uses[n - ring.size].last),
                             dependences.nodeOf(rank, ring.uses[n].first));
        keepOrder(set.programs[rank], rank, pairsAlone, dependences);
      }
      std::vector<Graph::Node> order;
      if (dependences.sort(order)) {
        dependences.arrange(set, order);
        if (pairsAlone || llvm::any_of(set.programs, queuesAllReduce))
          set.predicted.reset();
        for (size_t rank = 0; rank != rings.size(); ++rank) {
          for (auto &[key, ring] : rings[rank])
            ring.uses.clear();
          if (failed(collect(set.programs[rank], rings[rank])))
            return failure();
        }
        return success();
      }
      if (!pairsAlone || !report)
        continue;
      dependences.report(set, order);
    }
    return failure();
  }

  /// Whether an all-reduce shares a queue with transfers. Its place among these may change.
  static bool queuesAllReduce(const Program &program) {
    return program.communicator == Communicator::Shared &&
           llvm::any_of(program.operations, [](const auto &each) { return plan::isCollective(each.kind); });
  }

  /// Adds edges that keep the order of transfers of one queue, or, if `pairsAlone`, of one peer and direction.
  static void keepOrder(const Program &program, size_t rank, bool pairsAlone, Dependences &dependences) {
    std::map<std::pair<int32_t, int>, Graph::Node> last;
    for (uint32_t i = 0; i != program.instructions.size(); ++i) {
      const Instruction &own = program.instructions[i];
      const plan::Operation &operation = program.of(own);
      if (!plan::isTransfer(operation.kind))
        continue;
      const Graph::Node node = dependences.nodeOf(rank, i);
      const std::pair<int32_t, int> key =
          pairsAlone ? std::pair(operation.peer, int(plan::sends(operation.kind))) : std::pair(-1, int(own.queue));
      const auto [it, isNew] = last.try_emplace(key, node);
      if (!isNew)
        dependences.edge(std::exchange(it->second, node), node);
    }
  }
};

} // namespace

LogicalResult allocateSlots(ProgramSet &set, PipelineOp known) {
  return Allocation(set, known).run(known && known.getProblem().getRings() == RingSizes::Any);
}

LogicalResult allocatePredicted(ProgramSet &set, PipelineOp known) { return Allocation(set, known).run(false); }

} // namespace pipec
