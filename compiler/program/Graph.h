// A dependence graph, and one order of its nodes. A node's level is the length of the longest path to it. Nodes are
// ordered by level, and within a level by tie. Each node follows all nodes that it depends on. So if every rank keeps
// to this order, the ranks cannot deadlock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace pipec {

class Graph {
public:
  using Node = uint32_t;

  /// Adds a node that lasts `weight` levels. Among nodes of one level, smaller ties come first.
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

  /// Puts all nodes in order. Returns false if there is a cycle; `order` then holds the nodes of a cycle, each waiting
  /// for the next. O((nodes + edges) log width), where the width is the largest number of nodes on one level.
  bool sort(std::vector<Node> &order);

private:
  void findSuccessors();

  struct Data {
    uint32_t weight, tie;
    uint32_t before = 0; // how many predecessors it has
    uint32_t first = 0;  // where its successors begin in `successors`
  };
  std::vector<Data> nodes;
  std::vector<std::pair<Node, Node>> edges;
  std::vector<Node> successors; // the successors of each node are contiguous
  bool changed = false;         // nodes or edges were added since `successors` was made
};

} // namespace pipec
