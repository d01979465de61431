// pipe-overlap-communication: chooses the order of transfers that share a queue; the simulator judges it.
#include "compiler/passes/Passes.h"
#include "compiler/program/Dependences.h"
#include "compiler/transfers/DryRun.h"
#include "compiler/transfers/TransferOrder.h"
#include "runtime/simulate/Price.h"

#include "llvm/ADT/STLExtras.h"

#include <map>

using namespace mlir;

namespace pipec {

using namespace pipe;

namespace {

/// The programs as plain arrays (compiler/transfers/Traffic.h), and the way back. An all-reduce, which several ranks
/// run at once, and the instructions behind it are left out; they stay at the end.
struct Numbered {
  Traffic traffic;
  std::vector<std::vector<uint32_t>> passOf; // pass of the traffic, by rank and instruction; kNone: it is none
  std::vector<std::vector<uint32_t>> record; // instruction, by rank and pass
  std::vector<std::vector<uint32_t>> tail;   // by rank, the instructions that are left out
  /// Whether makespanOf finds the same makespan as the simulator would. It does if nothing is left out, no W has a
  /// queue of its own, and no queue receives transfers of different latencies. A queue counts completions in order, so
  /// a transfer with a short latency counts too late if it stands behind one with a long latency.
  bool isExact = true;

  TransferOrder orderOf(const Dependences &dependences, const std::vector<Graph::Node> &nodes) const {
    TransferOrder order;
    for (const Graph::Node node : nodes)
      if (dependences.isTransfer(node)) {
        order.push_back(traffic.nodeOf(uint32_t(dependences.transferAt(node))));
      } else if (auto [rank, record] = dependences.placeOf(node); passOf[rank][record] != kNone) {
        order.push_back(passOf[rank][record]);
      }
    return order;
  }

  /// Whether the programs already stand in the order of `rows`.
  bool stand(const Rows &rows, const ProgramSet &set) const {
    for (size_t rank = 0; rank != set.ranks(); ++rank) {
      const Program &program = set.programs[rank];
      auto cell = rows[rank].begin();
      for (uint32_t i = 0; i != program.instructions.size(); ++i) {
        const Instruction &own = program.instructions[i];
        const plan::Kind kind = program.kind(own);
        if (!plan::isTransfer(kind) && passOf[rank][i] == kNone)
          continue;
        if (cell == rows[rank].end() || *cell++ != (plan::sends(kind)      ? Cell{Cell::Kind::Send, own.out}
                                                    : plan::receives(kind) ? Cell{Cell::Kind::Recv, own.in}
                                                                           : Cell{Cell::Kind::Pass, passOf[rank][i]}))
          return false;
      }
      if (cell != rows[rank].end())
        return false;
    }
    return true;
  }
};

void numberPasses(const Program &program, Numbered &made) {
  std::vector<uint32_t> &passOf = made.passOf.emplace_back(program.instructions.size(), kNone);
  std::vector<uint32_t> &records = made.record.emplace_back(), &tail = made.tail.emplace_back();
  const bool fills = program.fillsWeights;
  for (uint32_t i = 0; i != program.instructions.size(); ++i) {
    const plan::Operation &operation = program.of(program.instructions[i]);
    if (plan::isTransfer(operation.kind))
      continue;
    if (plan::isCollective(operation.kind) || !tail.empty()) {
      tail.push_back(i);
      continue;
    }
    passOf[i] = uint32_t(made.traffic.passes.size());
    records.push_back(i);
    // A W on a queue of its own takes time that is left over.
    const bool isFree = fills && operation.kind == plan::Kind::BackwardWeight;
    made.isExact &= !isFree;
    made.traffic.passes.push_back({isFree ? 0 : operation.cost, program.instructions[i].microbatch});
  }
  made.isExact &= tail.empty();
  made.traffic.first.push_back(uint32_t(made.traffic.passes.size()));
}

/// The programs as arrays. Nothing where passes run in pairs, where a transfer has a wait besides its data, or where a
/// pass behind an all-reduce has a transfer: such programs stay as they are.
std::optional<Numbered> number(const ProgramSet &set) {
  Numbered made;
  for (const Program &program : set.programs) {
    auto isTransfer = [&](uint32_t record) { return plan::isTransfer(program.kind(program.instructions[record])); };
    if (program.rings || llvm::any_of(program.operations, [](const auto &each) { return plan::isHeader(each.kind); }) ||
        llvm::any_of(program.uses, [&](const Use &use) { return isTransfer(use.user) || isTransfer(use.definition); }))
      return std::nullopt;
    numberPasses(program, made);
  }
  Traffic &traffic = made.traffic;
  std::map<std::pair<int32_t, uint32_t>, uint32_t> queues; // (rank, queue of the rank) → number over all ranks
  auto queueOf = [&](const Program &program, uint32_t transfer) {
    return queues.try_emplace({program.rank, program.instructions[transfer].queue}, uint32_t(queues.size()))
        .first->second;
  };
  for (const Transfer &transfer : set.transfers) {
    const Program &from = set.programs[size_t(transfer.from)], &to = set.programs[size_t(transfer.to)];
    const plan::Operation &send = from.of(from.instructions[transfer.send]);
    const uint32_t producer = made.passOf[size_t(transfer.from)][set.producerOf(transfer)];
    const uint32_t consumer = made.passOf[size_t(transfer.to)][set.consumerOf(transfer)];
    if (producer == kNone || consumer == kNone || traffic.passes[producer].out != kNone ||
        traffic.passes[consumer].in != kNone)
      return std::nullopt;
    traffic.passes[producer].out = traffic.passes[consumer].in = uint32_t(traffic.moves.size());
    traffic.moves.push_back(
        {producer, consumer, queueOf(from, transfer.send), queueOf(to, transfer.recv), send.cost, send.latency});
  }
  traffic.queues = uint32_t(queues.size());
  std::vector<plan::Time> latencies(queues.size(), -1); // of the last transfer that each queue receives
  for (const Traffic::Move &move : traffic.moves) {
    const plan::Time other = std::exchange(latencies[move.receives], move.latency);
    made.isExact &= other < 0 || other == move.latency;
  }
  return made;
}

/// How long transfers and fused backwards last in the orders that know no times. The first are the usual levels; orders
/// that repeat most come first.
constexpr Dependences::Levels kLevels[] = {{0, 16}, {2, 16}, {3, 16}, {4, 8}};

void arrange(ProgramSet &set, const Numbered &numbered, const Rows &rows) {
  for (size_t rank = 0; rank != rows.size(); ++rank) {
    std::vector<uint32_t> order;
    order.reserve(set.programs[rank].instructions.size());
    for (const Cell &cell : rows[rank])
      order.push_back(cell.kind == Cell::Kind::Send ? set.transfers[cell.index].send
                      : cell.kind == Cell::Kind::Recv
                          ? set.transfers[cell.index].recv
                          : numbered.record[rank][cell.index - numbered.traffic.first[rank]]);
    order.insert(order.end(), numbered.tail[rank].begin(), numbered.tail[rank].end());
    set.reorder(rank, order);
  }
}

/// Whether `one` runs to its end, and `other` does not or has no lower price.
bool isBetter(const ProgramSet &one, const ProgramSet &other) {
  std::optional<__int128> its = simulate::priceOf(lower(one)), others = simulate::priceOf(lower(other));
  return its && (!others || *its <= *others);
}

std::optional<plan::Time> makespan(const ProgramSet &set) {
  simulate::Result result;
  if (!simulate::simulate(lower(set, {.kept = false}), {}, result).ok())
    return std::nullopt;
  return result.makespan;
}

} // namespace

/// Time per step, and makespan; nothing where the programs stop.
static std::optional<std::pair<plan::Time, plan::Time>> timeOf(const ProgramSet &set) {
  simulate::Result result;
  plan::Time span = 0;
  if (!simulate::span(lower(set, {.kept = false}), span, result).ok())
    return std::nullopt;
  return std::pair(span, result.makespan);
}

/// What starts in the order of issue is held up by what stands before it, and on its queue by what has not ended. So
/// transfers stand as they do for queues that hold up more, or as they do for queues that hold up less.
static LogicalResult overlapInLaunchOrder(ProgramSet &set) {
  std::optional<std::pair<plan::Time, plan::Time>> least = timeOf(set);
  for (const Communicator placed : {Communicator::PerPair, Communicator::Shared}) {
    ProgramSet other = set;
    for (Program &program : other.programs)
      program.useCommunicator(placed);
    if (failed(overlapCommunication(other, std::nullopt)))
      return failure();
    for (Program &program : other.programs)
      program.useCommunicator(Communicator::LaunchOrder);
    const std::optional<std::pair<plan::Time, plan::Time>> its = timeOf(other);
    if (!its || (least && *least <= *its))
      continue;
    least = its;
    set = std::move(other);
  }
  return success();
}

LogicalResult overlapCommunication(ProgramSet &set, std::optional<Ordered> ordered) {
  const auto all = [&](Communicator communicator) {
    return llvm::all_of(set.programs, [&](const Program &program) { return program.communicator == communicator; });
  };
  if (all(Communicator::PerEdge))
    return success(); // a queue has one direction, and transfers in the order of their producers hold up none
  if (all(Communicator::LaunchOrder))
    return overlapInLaunchOrder(set);
  const std::optional<Numbered> numbered = number(set);
  if (!numbered)
    return success();
  if (!ordered)
    ordered.emplace(set);
  Dependences &dependences = ordered->dependences;
  std::vector<Graph::Node> &sorted = ordered->order;
  if (!ordered->sorted) {
    dependences.report(set, sorted);
    return failure();
  }
  const Traffic &traffic = numbered->traffic;
  TransferOrder first = numbered->orderOf(dependences, sorted);
  const bool isFirst = ordered->arranged || numbered->stand(rowsOf(traffic, first), set);
  std::vector<MakeOrder> orders{[&] { return std::move(first); }};
  for (Dependences::Levels levels : llvm::drop_begin(kLevels))
    orders.push_back([&, levels] {
      dependences.last(levels);
      (void)dependences.sort(sorted); // levels make no cycle
      return numbered->orderOf(dependences, sorted);
    });
  const TransferOrder best = bestOrder(traffic, orders);
  Rows rows = rowsOf(traffic, best);
  constexpr Overtaking kAll = {.passes = Overtaking::kAny, .transfers = Overtaking::kAny};
  int64_t steps = 0;
  if (Rows fewer = packed(traffic, rows, kAll, steps); steps < stepsOf(traffic, rows) / 64 * 63)
    rows = std::move(fewer);
  if (isFirst && numbered->stand(rows, set))
    return success();
  // If the programs stand in the first of these orders, bestOrder has judged them too. If not, or if its makespans are
  // not exact, the simulator compares old and new.
  if (isFirst && numbered->isExact) {
    arrange(set, *numbered, rows);
  } else {
    ProgramSet other = set;
    arrange(other, *numbered, rows);
    if (!(isFirst && makespan(other) == makespanOf(traffic, best)) && !isBetter(other, set))
      return success();
    set = std::move(other);
  }
  return success();
}

} // namespace pipec
