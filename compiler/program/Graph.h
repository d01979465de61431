// A dependence graph of passes and transfers, and one order of its nodes: by level (the longest path to a node), ties
// by a key. The order is a linear extension of the graph, so the ranks' parts of it cannot wait for each other in a
// cycle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace pipec {

class Graph {
public:
  using Node = uint32_t;

  /// A node that lasts `weight` levels. At one level, smaller ties come first.
  Node add(uint32_t weight, uint32_t tie);
  void setWeight(Node node, uint32_t weight) { nodes[node].weight = weight; }
  /// `to` starts no earlier than `from` ends.
  void edge(Node from, Node to) {
    edges.emplace_back(from, to);
    changed = true;
  }
  size_t size() const { return nodes.size(); }
  void reserve(size_t nodeCount, size_t edgeCount) {
    nodes.reserve(nodeCount);
    edges.reserve(edgeCount);
  }

  /// All nodes in order. If a cycle prevents that, false, and `order` is the nodes of one cycle. O((nodes + edges) log
  /// width).
  bool sort(std::vector<Node> &order);

private:
  void findSuccessors();

  struct Data {
    uint32_t weight, tie;
    uint32_t before = 0; // predecessors
    uint32_t first = 0;  // of its successors
  };
  std::vector<Data> nodes;
  std::vector<std::pair<Node, Node>> edges;
  std::vector<Node> successors; // by node
  bool changed = false;         // since they were found
};

} // namespace pipec
