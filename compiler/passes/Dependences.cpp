#include "compiler/passes/Dependences.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace pipec {

/// At one level, transfers come before passes (which may take what they bring), in a fixed order that does not depend
/// on the microbatch, so that what repeats looks the same every time.
static uint64_t tieOf(size_t rank) { return uint64_t(1) << 63 | rank; }
static uint64_t tieOf(const Transfer &transfer) {
  return uint64_t(uint32_t(transfer.from)) << 32 | uint64_t(uint32_t(transfer.to));
}

Dependences::Dependences(const Streams &streams, Levels levels) {
  nodes.resize(streams.ranks.size());
  for (size_t rank = 0; rank != streams.ranks.size(); ++rank) {
    const Stream &stream = streams.ranks[rank];
    nodes[rank].resize(stream.records.size());
    bool first = true;
    for (uint32_t i = 0; i != stream.records.size(); ++i) {
      plan::Kind kind = stream.kind(stream.records[i]);
      if (plan::isTransfer(kind))
        continue;
      Graph::Node node = graph.add(kind == plan::Kind::Backward ? levels.backward : 8, tieOf(rank));
      places.emplace_back(uint32_t(rank), i);
      nodes[rank][i] = node;
      if (!std::exchange(first, false))
        graph.edge(node - 1, node);
    }
  }
  for (const Transfer &transfer : streams.transfers) {
    Graph::Node node = graph.add(levels.transfer, tieOf(transfer));
    graph.edge(nodes[size_t(transfer.from)][transfer.producer], node);
    graph.edge(node, nodes[size_t(transfer.to)][transfer.consumer]);
    nodes[size_t(transfer.from)][transfer.send] = nodes[size_t(transfer.to)][transfer.recv] = node;
  }
  // What a transfer waits for beside what it sends: passes before which an order file does not place it.
  for (size_t rank = 0; rank != streams.ranks.size(); ++rank)
    for (const Use &use : streams.ranks[rank].uses)
      if (isTransfer(nodes[rank][use.user]))
        graph.edge(nodes[rank][use.definition], nodes[rank][use.user]);
}

void Dependences::arrange(Streams &streams, const std::vector<Graph::Node> &order) const {
  std::vector<std::vector<uint32_t>> orders(streams.ranks.size());
  for (size_t rank = 0; rank != orders.size(); ++rank)
    orders[rank].reserve(streams.ranks[rank].records.size());
  for (Graph::Node node : order) {
    if (isTransfer(node)) {
      const Transfer &transfer = streams.transfers[transferAt(node)];
      orders[size_t(transfer.from)].push_back(transfer.send);
      orders[size_t(transfer.to)].push_back(transfer.recv);
    } else {
      auto [rank, record] = placeOf(node);
      orders[rank].push_back(record);
    }
  }
  for (size_t rank = 0; rank != orders.size(); ++rank)
    streams.permute(rank, orders[rank]);
  streams.fixTransfers();
}

InFlightDiagnostic Dependences::report(const Streams &streams, const std::vector<Graph::Node> &cycle) const {
  auto opOf = [&](size_t rank, uint32_t record) { return streams.ranks[rank].records[record].op; };
  auto producerOf = [&](Graph::Node node) {
    const Transfer &transfer = streams.transfers[transferAt(node)];
    return opOf(size_t(transfer.from), transfer.producer);
  };
  auto name = [&](Graph::Node node) {
    if (isTransfer(node)) {
      const Transfer &transfer = streams.transfers[transferAt(node)];
      return "the transfer from rank " + std::to_string(transfer.from) + " to rank " + std::to_string(transfer.to) +
             " after " + nameOf(producerOf(node));
    }
    auto [rank, record] = placeOf(node);
    return "rank " + std::to_string(rank) + ": " + nameOf(opOf(rank, record));
  };
  auto location = [&](Graph::Node node) {
    return isTransfer(node) ? producerOf(node)->getLoc() : opOf(placeOf(node).first, placeOf(node).second)->getLoc();
  };
  InFlightDiagnostic error = emitError(location(cycle.front())) << "the programs wait for each other in a cycle of "
                                                                << cycle.size() << ": " << name(cycle.front());
  for (Graph::Node node : llvm::drop_begin(cycle))
    error.attachNote(location(node)) << "which waits for " << name(node);
  return error;
}

} // namespace pipec
