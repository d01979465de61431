// What waits for what in the programs, whatever the times: the graph from which one order of all ops and transfers is
// cut (design, section 5).
#pragma once

#include "compiler/program/Graph.h"
#include "compiler/program/ProgramSet.h"

#include "mlir/IR/Diagnostics.h"

#include <utility>
#include <vector>

namespace pipec {

/// A node for each op that is no transfer (an overlapped pair is one, with its header), in the order of ranks and
/// records, then one for each transfer. Edges: each
/// rank's word, and from producer to transfer to consumer.
class Dependences {
public:
  /// How many levels things last; a forward, or half of a split backward, always lasts 8. Where transfers last none,
  /// what repeats is shortest; the longer they last, the more room the order leaves for them.
  struct Levels {
    uint32_t transfer = 0;
    uint32_t backward = 16; // fused
  };

  /// The transfers must be known.
  explicit Dependences(const ProgramSet &set, Levels levels);
  explicit Dependences(const ProgramSet &set) : Dependences(set, Levels()) {}
  /// From now on things last so many.
  void last(Levels levels);

  Graph::Node nodeOf(size_t rank, uint32_t record) const { return nodes[rank][record]; }
  void edge(Graph::Node from, Graph::Node to) { graph.edge(from, to); }

  /// One order of all nodes; if a cycle prevents that, false, and `order` is the cycle's.
  bool sort(std::vector<Graph::Node> &order) { return graph.sort(order); }

  bool isTransfer(Graph::Node node) const { return node >= places.size(); }
  size_t transferAt(Graph::Node node) const { return node - places.size(); }
  /// Rank and record of a node that is no transfer.
  std::pair<uint32_t, uint32_t> placeOf(Graph::Node node) const { return places[node]; }

  /// Puts the records of all ranks in the order of the nodes; ops stay where they are. From then on there is no
  /// nodeOf().
  void arrange(ProgramSet &set, const std::vector<Graph::Node> &order);

  /// Reports a cycle among nodes, each waiting for the next; notes may be added.
  mlir::InFlightDiagnostic report(const ProgramSet &set, const std::vector<Graph::Node> &cycle) const;

private:
  void meet(const ProgramSet &set);

  Graph graph;
  std::vector<std::pair<uint32_t, uint32_t>> places;
  std::vector<Graph::Node> backwards;          // fused ones, and pairs
  std::vector<std::vector<Graph::Node>> nodes; // by rank and instruction
};

/// All nodes in order, at the usual levels. Of instructions that are in that order too it is what orders them, which
/// the next pass need not work out again.
struct Ordered {
  explicit Ordered(const ProgramSet &set) : dependences(set), sorted(dependences.sort(order)) {}

  Dependences dependences;
  std::vector<Graph::Node> order; // or a cycle
  bool sorted;
  bool arranged = false; // the instructions stand in this order
};

} // namespace pipec
