// Which instruction waits for which, independent of times. This graph gives one order of all passes and transfers of
// all ranks; each program is that order restricted to its rank.
#pragma once

#include "compiler/program/Graph.h"
#include "compiler/program/ProgramSet.h"

#include "mlir/IR/Diagnostics.h"

#include <utility>
#include <vector>

namespace pipec {

/// The graph of a program set. The first nodes are the instructions other than transfers, rank by rank in issue order;
/// an overlapped pair and its header are one node. Then comes one node for each transfer, for its send and its receive.
/// Edges follow each rank's word, and lead from the pass that makes a tensor to the tensor's transfer and on to the
/// pass that takes it. A "record" is the index of an instruction in its program.
class Dependences {
public:
  /// How many levels (Graph.h) a node lasts. A forward always lasts 8, and so does either half of a split backward. If
  /// transfers last 0, the order repeats after the fewest instructions. The longer transfers last, the later the order
  /// places the passes that take what they bring.
  struct Levels {
    uint32_t transfer = 0;
    uint32_t backward = 16; // fused
  };

  /// Needs a set with known transfers (addTransfers or matchTransfers).
  explicit Dependences(const ProgramSet &set, Levels levels);
  explicit Dependences(const ProgramSet &set) : Dependences(set, Levels()) {}
  /// Changes how many levels nodes last.
  void last(Levels levels);

  Graph::Node nodeOf(size_t rank, uint32_t record) const { return nodes[rank][record]; }
  void edge(Graph::Node from, Graph::Node to) { graph.edge(from, to); }

  /// Finds one order of all nodes. Returns false if there is a cycle; `order` then holds its nodes.
  bool sort(std::vector<Graph::Node> &order) { return graph.sort(order); }

  bool isTransfer(Graph::Node node) const { return node >= places.size(); }
  size_t transferAt(Graph::Node node) const { return node - places.size(); }
  /// Rank and record of a node other than a transfer; for a pair, the record of its header.
  std::pair<uint32_t, uint32_t> placeOf(Graph::Node node) const { return places[node]; }

  /// Puts the instructions of all ranks in the order of the nodes. nodeOf() must not be called afterwards.
  void arrange(ProgramSet &set, const std::vector<Graph::Node> &order);

  /// Reports a cycle of nodes in which each waits for the next. The caller may add notes.
  mlir::InFlightDiagnostic report(const ProgramSet &set, const std::vector<Graph::Node> &cycle) const;

private:
  void meet(const ProgramSet &set);

  Graph graph;
  std::vector<std::pair<uint32_t, uint32_t>> places; // rank and record, by node
  std::vector<Graph::Node> backwards;                // fused backwards, and pairs
  std::vector<std::vector<Graph::Node>> nodes;       // by rank and record
};

/// A graph and the order of its nodes at the usual levels. A pass that arranges instructions in this order hands it on,
/// so that the next pass need not compute it again.
struct Ordered {
  explicit Ordered(const ProgramSet &set) : dependences(set), sorted(dependences.sort(order)) {}

  Dependences dependences;
  std::vector<Graph::Node> order; // all nodes; if not `sorted`, the nodes of a cycle
  bool sorted;
  bool arranged = false; // whether the instructions are in this order
};

} // namespace pipec
