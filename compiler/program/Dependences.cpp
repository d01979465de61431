#include "compiler/program/Dependences.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

using namespace mlir;
using namespace pipec::pipe;

namespace pipec {

namespace {

constexpr uint32_t kPassLevels = 8; // how long a forward lasts, and either half of a split backward

/// The order of nodes that start at one level. Transfers come before passes, since a pass may take what a transfer of
/// the same level brings. Transfers are ordered by their ranks, passes too, and never by microbatch: so an order that
/// repeats looks the same every time.
class Ties {
public:
  explicit Ties(const ProgramSet &set) : peers(set.ranks()) {
    for (size_t rank = 0; rank != peers.size(); ++rank) {
      std::set<int32_t> sorted;
      for (const plan::Operation &operation : set.programs[rank].operations)
        if (plan::sends(operation.kind))
          sorted.insert(operation.peer);
      peers[rank].assign(sorted.begin(), sorted.end());
      first.push_back(first.back() + uint32_t(sorted.size()));
    }
  }
  uint32_t of(const Transfer &transfer) const {
    const std::vector<int32_t> &own = peers[size_t(transfer.from)];
    return first[size_t(transfer.from)] + uint32_t(llvm::find(own, transfer.to) - own.begin());
  }
  uint32_t ofPasses(size_t rank) const { return first.back() + uint32_t(rank); }

private:
  std::vector<std::vector<int32_t>> peers; // of each rank, those that it sends to
  std::vector<uint32_t> first = {0};       // of each rank, the tie of its first peer
};

} // namespace

Dependences::Dependences(const ProgramSet &set, Levels levels) {
  const Ties ties(set);
  size_t count = 0;
  for (const Program &program : set.programs)
    count += program.instructions.size();
  graph.reserve(count, count + 2 * set.transfers.size());
  places.reserve(count);
  nodes.resize(set.ranks());
  for (size_t rank = 0; rank != set.ranks(); ++rank) {
    const Program &program = set.programs[rank];
    nodes[rank].resize(program.instructions.size());
    bool first = true;
    for (uint32_t i = 0; i != program.instructions.size(); ++i) {
      plan::Kind kind = program.kind(program.instructions[i]);
      if (plan::isTransfer(kind))
        continue;
      const bool overlaps = plan::isHeader(kind);
      // Collectives with replicas, and the updates between them, take none of the rank's time.
      const bool ofReplicas = !plan::isCompute(kind) && program.of(program.instructions[i]).layers != 0;
      Graph::Node node = graph.add(ofReplicas ? 0 : kPassLevels, ties.ofPasses(rank));
      if (kind == plan::Kind::Backward || overlaps)
        backwards.push_back(node);
      places.emplace_back(uint32_t(rank), i);
      nodes[rank][i] = node;
      // Header, forward and backward of a pair are one node: neither pass starts before both can.
      for (uint32_t with = overlaps ? 2 : 0; with != 0; --with)
        nodes[rank][++i] = node;
      if (!std::exchange(first, false))
        graph.edge(node - 1, node);
    }
  }
  for (const Transfer &transfer : set.transfers) {
    Graph::Node node = graph.add(0, ties.of(transfer));
    graph.edge(nodes[size_t(transfer.from)][set.producerOf(transfer)], node);
    graph.edge(node, nodes[size_t(transfer.to)][set.consumerOf(transfer)]);
    nodes[size_t(transfer.from)][transfer.send] = nodes[size_t(transfer.to)][transfer.recv] = node;
  }
  last(levels);
  meet(set);
  // Waits that an order file adds: of transfers for the passes before them, and of passes for sends.
  for (size_t rank = 0; rank != set.ranks(); ++rank)
    for (const Use &use : set.programs[rank].uses)
      if (isTransfer(nodes[rank][use.user]) || isTransfer(nodes[rank][use.definition]))
        graph.edge(nodes[rank][use.definition], nodes[rank][use.user]);
}

void Dependences::last(Levels levels) {
  for (const Graph::Node node : backwards)
    graph.setWeight(node, levels.backward);
  for (size_t node = places.size(); node != graph.size(); ++node)
    graph.setWeight(Graph::Node(node), levels.transfer);
}

/// Adds the edges of all-reduces that share a queue with transfers. Such an all-reduce holds up what stands behind it
/// until all ranks of its group have come to theirs. So whatever these ranks do before it must come before the node of
/// any of them; the edges say so through the node of the first rank.
void Dependences::meet(const ProgramSet &set) {
  // The first rank's node, by group and by how many all-reduces of the group stand before it.
  std::map<std::pair<int32_t, size_t>, Graph::Node> firsts;
  for (size_t rank = 0; rank != set.ranks(); ++rank) {
    const Program &program = set.programs[rank];
    if (program.communicator != Communicator::Shared)
      continue;
    std::map<int32_t, size_t> before; // all-reduces of this rank so far, by group
    for (uint32_t i = 0; i != program.instructions.size(); ++i) {
      const plan::Operation &operation = program.of(program.instructions[i]);
      if (!plan::isCollective(operation.kind) ||
          plan::isOfLayers(operation)) // those with replicas have a queue of their own
        continue;
      const Graph::Node node = nodes[rank][i];
      const auto [first, isNew] = firsts.try_emplace({operation.group, before[operation.group]++}, node);
      if (isNew)
        continue;
      graph.edge(first->second, node);
      if (node != 0 && places[node - 1].first == rank)
        graph.edge(node - 1, first->second);
    }
  }
}

void Dependences::arrange(ProgramSet &set, const std::vector<Graph::Node> &order) {
  nodes.clear();
  std::vector<std::vector<uint32_t>> orders(set.ranks());
  for (size_t rank = 0; rank != orders.size(); ++rank)
    orders[rank].reserve(set.programs[rank].instructions.size());
  for (Graph::Node node : order) {
    if (isTransfer(node)) {
      const Transfer &transfer = set.transfers[transferAt(node)];
      orders[size_t(transfer.from)].push_back(transfer.send);
      orders[size_t(transfer.to)].push_back(transfer.recv);
    } else {
      const auto [rank, record] = placeOf(node);
      const Program &program = set.programs[rank];
      const bool overlaps = plan::isHeader(program.kind(program.instructions[record]));
      places[node].second = uint32_t(orders[rank].size());
      for (uint32_t i = record; i != record + (overlaps ? 3 : 1); ++i)
        orders[rank].push_back(i);
    }
  }
  for (size_t rank = 0; rank != orders.size(); ++rank)
    set.reorder(rank, orders[rank]);
}

InFlightDiagnostic Dependences::report(const ProgramSet &set, const std::vector<Graph::Node> &cycle) const {
  // Rank and record of a node; of a transfer, those of the pass whose tensor it carries.
  auto passOf = [&](Graph::Node node) {
    if (!isTransfer(node))
      return placeOf(node);
    const Transfer &transfer = set.transfers[transferAt(node)];
    return std::pair(uint32_t(transfer.from), set.producerOf(transfer));
  };
  auto name = [&](Graph::Node node) {
    auto [rank, record] = passOf(node);
    const std::string pass = set.programs[rank].nameOf(record);
    if (!isTransfer(node))
      return "rank " + std::to_string(rank) + ": " + pass;
    const Transfer &transfer = set.transfers[transferAt(node)];
    return "the transfer from rank " + std::to_string(transfer.from) + " to rank " + std::to_string(transfer.to) +
           " after " + pass;
  };
  auto location = [&](Graph::Node node) {
    auto [rank, record] = passOf(node);
    return set.programs[rank].placeOf(record);
  };
  InFlightDiagnostic error = emitError(location(cycle.front())) << "the programs wait for each other in a cycle of "
                                                                << cycle.size() << ": " << name(cycle.front());
  for (Graph::Node node : llvm::drop_begin(cycle))
    error.attachNote(location(node)) << "which waits for " << name(node);
  return error;
}

} // namespace pipec
