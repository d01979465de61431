// pipe-overlap-communication: the order of transfers that share a queue, with the simulator as its judge.
#include "compiler/passes/Lowered.h"
#include "compiler/passes/Passes.h"
#include "compiler/program/Dependences.h"
#include "compiler/transfers/DryRun.h"
#include "compiler/transfers/TransferOrder.h"
#include "runtime/simulate/Price.h"

#include "llvm/ADT/STLExtras.h"

#include <map>

namespace pipec {
#define GEN_PASS_DEF_OVERLAPCOMMUNICATION
#include "compiler/passes/Passes.h.inc"
} // namespace pipec

using namespace mlir;
using namespace pipec;
using namespace pipec::pipe;

namespace {

/// The programs as arrays, and the way back. An all-reduce, which all ranks run at once, and what stands behind it are
/// left out: they stay at the end.
struct Numbered {
  Traffic traffic;
  std::vector<std::vector<uint32_t>> passOf; // by rank and record
  std::vector<std::vector<uint32_t>> record; // by rank, of each of its passes
  std::vector<std::vector<uint32_t>> tail;   // by rank, records that are left out
  /// Whether the simulator would find the makespan that makespanOf finds. That is so if nothing is left out of the
  /// traffic, no W has a queue of its own, and no queue receives transfers of different latencies: a queue counts
  /// completions in order, so a transfer with a short latency behind one with a long latency would count too late.
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

  /// Whether the programs are these rows.
  bool stand(const Rows &rows, const Streams &streams) const {
    for (size_t rank = 0; rank != streams.ranks.size(); ++rank) {
      const Stream &stream = streams.ranks[rank];
      auto cell = rows[rank].begin();
      for (uint32_t i = 0; i != stream.records.size(); ++i) {
        const Record &record = stream.records[i];
        const plan::Kind kind = stream.kind(record);
        if (!plan::isTransfer(kind) && passOf[rank][i] == kNone)
          continue;
        if (cell == rows[rank].end() ||
            *cell++ != (kind == plan::Kind::Send   ? Cell{Cell::Kind::Send, record.out}
                        : kind == plan::Kind::Recv ? Cell{Cell::Kind::Recv, record.in}
                                                   : Cell{Cell::Kind::Pass, passOf[rank][i]}))
          return false;
      }
      if (cell != rows[rank].end())
        return false;
    }
    return true;
  }
};

void numberPasses(const Stream &stream, Numbered &made) {
  std::vector<uint32_t> &passOf = made.passOf.emplace_back(stream.records.size(), kNone);
  std::vector<uint32_t> &records = made.record.emplace_back(), &tail = made.tail.emplace_back();
  const bool fills = ProgramOp(stream.program).getFillWeights();
  for (uint32_t i = 0; i != stream.records.size(); ++i) {
    const plan::Operation &operation = stream.of(stream.records[i]);
    if (plan::isTransfer(operation.kind))
      continue;
    if (operation.kind == plan::Kind::AllReduce || !tail.empty()) {
      tail.push_back(i);
      continue;
    }
    passOf[i] = uint32_t(made.traffic.passes.size());
    records.push_back(i);
    // On a queue of its own a W takes what time is left over.
    const bool isFree = fills && operation.kind == plan::Kind::BackwardWeight;
    made.isExact &= !isFree;
    made.traffic.passes.push_back({isFree ? 0 : operation.cost, stream.records[i].microbatch});
  }
  made.isExact &= tail.empty();
  made.traffic.first.push_back(uint32_t(made.traffic.passes.size()));
}

/// The programs as arrays. Nothing where transfers wait for more than what they carry, or reach into the tail that is
/// left out, or passes run in pairs: such programs stay as they are.
std::optional<Numbered> number(const Streams &streams) {
  Numbered made;
  for (const Stream &stream : streams.ranks) {
    auto isTransfer = [&](uint32_t record) { return plan::isTransfer(stream.kind(stream.records[record])); };
    if (ProgramOp(stream.program).getRings() ||
        llvm::any_of(stream.operations, [](const auto &each) { return each.kind == plan::Kind::Overlapped; }) ||
        llvm::any_of(stream.uses, [&](const Use &use) { return isTransfer(use.user) || isTransfer(use.definition); }))
      return std::nullopt;
    numberPasses(stream, made);
  }
  Traffic &traffic = made.traffic;
  std::map<std::tuple<int32_t, int32_t, int>, uint32_t> queues;
  auto queueOf = [&](int32_t rank, int32_t peer, bool sends) {
    auto [first, second] = queueKey(ProgramOp(streams.ranks[size_t(rank)].program).getCommunicator(), peer, sends);
    return queues.try_emplace({rank, first, second}, uint32_t(queues.size())).first->second;
  };
  for (const Transfer &transfer : streams.transfers) {
    const Stream &from = streams.ranks[size_t(transfer.from)];
    const plan::Operation &send = from.of(from.records[transfer.send]);
    const uint32_t producer = made.passOf[size_t(transfer.from)][transfer.producer];
    const uint32_t consumer = made.passOf[size_t(transfer.to)][transfer.consumer];
    if (producer == kNone || consumer == kNone || traffic.passes[producer].out != kNone ||
        traffic.passes[consumer].in != kNone)
      return std::nullopt;
    traffic.passes[producer].out = traffic.passes[consumer].in = uint32_t(traffic.moves.size());
    traffic.moves.push_back({producer, consumer, queueOf(transfer.from, transfer.to, true),
                             queueOf(transfer.to, transfer.from, false), send.cost, send.latency});
  }
  traffic.queues = uint32_t(queues.size());
  std::vector<plan::Time> latencies(queues.size(), -1); // of what each receives
  for (const Traffic::Move &move : traffic.moves) {
    const plan::Time other = std::exchange(latencies[move.receives], move.latency);
    made.isExact &= other < 0 || other == move.latency;
  }
  return made;
}

/// How long transfers and passes last in the orders that know no times; the orders that repeat most come first.
constexpr Dependences::Levels kLevels[] = {{0, 16}, {2, 16}, {3, 16}, {4, 8}}; // the usual ones, and others

struct OverlapCommunicationPass : pipec::impl::OverlapCommunicationBase<OverlapCommunicationPass> {
  void runOnOperation() override {
    Streams &streams = getAnalysis<Streams>();
    if (!streams.valid || failed(streams.checkPeers()))
      return signalPassFailure();
    markAnalysesPreserved<Streams>();
    if (llvm::all_of(streams.ranks, [](const Stream &stream) {
          return ProgramOp(stream.program).getCommunicator() == Communicator::PerEdge;
        }))
      return; // in the order of their producers none is in another's way
    if (failed(streams.match()))
      return signalPassFailure();
    const std::optional<Numbered> numbered = number(streams);
    if (!numbered)
      return;
    Ordered &ordered = getAnalysis<Ordered>();
    Dependences &dependences = ordered.dependences;
    std::vector<Graph::Node> &sorted = ordered.order;
    if (!ordered.sorted) {
      dependences.report(streams, sorted);
      return signalPassFailure();
    }
    const Traffic &traffic = numbered->traffic;
    TransferOrder first = numbered->orderOf(dependences, sorted);
    const bool isFirst = ordered.arranged || numbered->stand(rowsOf(traffic, first), streams);
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
    if (isFirst && numbered->stand(rows, streams))
      return;
    // The order that was there is the first one to try, or may be better than all.
    if (isFirst && numbered->isExact) {
      arrange(streams, *numbered, rows);
    } else {
      Streams other = streams;
      arrange(other, *numbered, rows);
      if (!(isFirst && makespan(other) == makespanOf(traffic, best)) && !isBetter(other, streams))
        return;
      streams = std::move(other);
    }
    for (size_t rank = 0; rank != streams.ranks.size(); ++rank)
      streams.moveOps(rank);
  }

  static void arrange(Streams &streams, const Numbered &numbered, const Rows &rows) {
    for (size_t rank = 0; rank != rows.size(); ++rank) {
      std::vector<uint32_t> records;
      records.reserve(streams.ranks[rank].records.size());
      for (const Cell &cell : rows[rank])
        records.push_back(cell.kind == Cell::Kind::Send ? streams.transfers[cell.index].send
                          : cell.kind == Cell::Kind::Recv
                              ? streams.transfers[cell.index].recv
                              : numbered.record[rank][cell.index - numbered.traffic.first[rank]]);
      records.insert(records.end(), numbered.tail[rank].begin(), numbered.tail[rank].end());
      streams.permute(rank, records);
    }
    streams.fixTransfers();
  }

  /// An order that runs is better than one that stops.
  static bool isBetter(const Streams &one, const Streams &other) {
    std::optional<__int128> its = simulate::priceOf(lower(one)), others = simulate::priceOf(lower(other));
    return its && (!others || *its <= *others);
  }

  static std::optional<plan::Time> makespan(const Streams &streams) {
    simulate::Result result;
    if (!simulate::simulate(lower(streams, {.communicator = std::nullopt, .kept = false}), {}, result).ok())
      return std::nullopt;
    return result.makespan;
  }
};

} // namespace
