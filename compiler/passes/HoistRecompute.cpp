// pipe-hoist-recompute: moves R into waits before them, which the simulator finds and judges.
#include "compiler/passes/Passes.h"
#include "runtime/plan/Limits.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace mlir;

namespace pipec {

namespace {

/// What becomes of programs, once their rings are allocated.
struct Judged {
  bool fits = false; // runs to its end, within its memory
  plan::Time makespan = 0, span = 0;
  std::vector<__int128> room;                                        // by rank, bytes for what passes hold
  std::vector<std::vector<std::pair<plan::Time, plan::Time>>> times; // by rank and instruction, of the first step

  bool isBetterThan(const Judged &other) const {
    return fits && (!other.fits || (makespan <= other.makespan && span <= other.span &&
                                    (makespan < other.makespan || span < other.span)));
  }
};

Judged judge(const ProgramSet &set, pipe::PipelineOp known) {
  Judged made;
  ProgramSet allocated = set;
  // Programs that cannot be allocated are not taken, so nothing is said of them.
  ScopedDiagnosticHandler silent(set.programs.front().place.getContext(), [](Diagnostic &) { return success(); });
  if (failed(allocatePredicted(allocated, known)))
    return made;
  const Lowered lowered(allocated);
  if (!lowered.rules.ok() || !lowered.progress.ok())
    return made;
  made.fits = true;
  made.makespan = lowered.result.makespan;
  made.span = lowered.span;
  for (size_t rank = 0; rank != set.ranks(); ++rank) {
    const Program &program = allocated.programs[rank];
    const simulate::PlaceResult &result = fullestOf(lowered.variant, lowered.result, rank);
    const plan::Bytes limit = program.memoryLimit.value_or(limits::kBytes);
    made.fits &= result.peak <= limit;
    made.room.push_back(__int128(limit) - result.peak + result.peakActivation);
  }
  // Times are of the programs as they stand: allocation may have put instructions in another order.
  simulate::Options options;
  options.keepTimes = true;
  simulate::Result result;
  const plan::Variant straight = lower(set, {.kept = false});
  if (!simulate::simulate(straight, options, result).ok())
    return {};
  for (size_t rank = 0; rank != set.ranks(); ++rank) // of its first shard, where it has some: they run one program
    made.times.push_back(std::move(result.places[rank * size_t(straight.shards())].times.front()));
  return made;
}

/// Moves the R of one program.
class Hoist {
public:
  Hoist(const Program &program, const std::vector<std::pair<plan::Time, plan::Time>> &times, __int128 room)
      : program(program), times(times), room(room) {
    __int128 live = 0;
    for (uint32_t i = 0; i != program.instructions.size(); ++i) {
      const Instruction &own = program.instructions[i];
      if (own.queue != 0)
        continue;
      const plan::Operation &operation = program.of(own);
      held.push_back(live += plan::takenBy(operation));
      live -= plan::freedBy(operation);
      queue.push_back(i);
    }
  }

  /// The order of the program's instructions once each R that its backward waits for has moved into the first wait
  /// behind its F that has the time and the memory; empty: none has moved.
  std::vector<uint32_t> run() {
    std::vector<plan::Time> idle(queue.size()); // before each instruction, as far as nobody fills it
    for (size_t at = 1; at < queue.size(); ++at)
      idle[at] = startOf(at) - endOf(at - 1);
    std::vector<std::vector<uint32_t>> before(queue.size()); // what moves to right before each
    std::vector<bool> moves(program.instructions.size());
    for (size_t at = 0; at + 1 < queue.size(); ++at) {
      const plan::Operation &operation = operationAt(at);
      if (!plan::does(operation.kind, plan::kRecomputation) || startOf(at + 1) > endOf(at))
        continue;
      for (size_t to = forwardOf(at) + 1; to < at; ++to)
        if (isEntry(to) && idle[to] >= operation.cost && fits(operation, to, at)) {
          idle[to] -= operation.cost;
          before[to].push_back(queue[at]);
          moves[queue[at]] = true;
          break;
        }
    }
    if (llvm::none_of(before, [](const auto &some) { return !some.empty(); }))
      return {};
    std::vector<uint32_t> order;
    size_t at = 0;
    for (uint32_t i = 0; i != program.instructions.size(); ++i) {
      if (at != queue.size() && queue[at] == i)
        llvm::append_range(order, before[at++]);
      if (!moves[i])
        order.push_back(i);
    }
    return order;
  }

private:
  const Program &program;
  const std::vector<std::pair<plan::Time, plan::Time>> &times;
  const __int128 room;
  std::vector<uint32_t> queue; // the instructions of the compute queue
  std::vector<__int128> held;  // by place on it, what passes hold meanwhile

  plan::Time startOf(size_t at) const { return times[queue[at]].first; }
  plan::Time endOf(size_t at) const { return times[queue[at]].second; }
  const plan::Operation &operationAt(size_t at) const { return program.of(program.instructions[queue[at]]); }

  /// Whether something may stand right before it: not before the second of a pair, nor between its header and its
  /// first.
  bool isEntry(size_t at) const {
    const auto isHeader = [&](size_t other) { return plan::isHeader(operationAt(other).kind); };
    return !isHeader(at - 1) && (at < 2 || !isHeader(at - 2));
  }

  /// The place of the F whose input an R takes.
  size_t forwardOf(size_t at) const {
    const plan::Operation &operation = operationAt(at);
    const int32_t microbatch = program.instructions[queue[at]].microbatch;
    size_t place = at;
    while (!(plan::does(operationAt(place).kind, plan::kForwardPass) && operationAt(place).stage == operation.stage &&
             program.instructions[queue[place]].microbatch == microbatch))
      --place;
    return place;
  }

  /// Whether the rank has the memory for an R at `to` rather than at `at`. If so, it takes it.
  bool fits(const plan::Operation &operation, size_t to, size_t at) {
    const __int128 more = plan::takenBy(operation) - plan::freedBy(operation);
    for (size_t place = to; place != at; ++place)
      if (held[place] + std::max<__int128>(more, 0) > room)
        return false;
    // What stands before it there has ended.
    const __int128 before = held[to] - plan::takenBy(operationAt(to));
    if (before + plan::takenBy(operation) > room)
      return false;
    for (size_t place = to; place != at; ++place)
      held[place] += more;
    return true;
  }
};

} // namespace

LogicalResult hoistRecompute(ProgramSet &set, pipe::PipelineOp known) {
  const auto recomputes = [](const Program &program) { return !recomputedStages(program).empty(); };
  // What W on a queue of their own do not leave of a wait is not known before the run.
  if (llvm::none_of(set.programs, recomputes) ||
      llvm::any_of(set.programs, [](const Program &program) { return program.fillsWeights; }))
    return success();
  // A wait that one R fills may end sooner once another has moved, elsewhere too.
  constexpr int kRounds = 8;
  Judged best = judge(set, known);
  for (int round = 0; round != kRounds && !best.times.empty(); ++round) {
    ProgramSet trial = set;
    bool moved = false;
    for (size_t rank = 0; rank != set.ranks(); ++rank)
      if (const std::vector<uint32_t> order = Hoist(set.programs[rank], best.times[rank], best.room[rank]).run();
          !order.empty()) {
        trial.reorder(rank, order);
        moved = true;
      }
    if (!moved)
      break;
    Judged judged = judge(trial, known);
    if (!judged.isBetterThan(best))
      break;
    set = std::move(trial);
    best = std::move(judged);
  }
  return success();
}

} // namespace pipec
