#include "compiler/passes/Graph.h"

#include <algorithm>
#include <queue>
#include <tuple>

namespace pipec {

Graph::Node Graph::add(uint32_t weight, uint64_t tie) {
  nodes.push_back({weight, tie});
  return Node(nodes.size() - 1);
}

bool Graph::sort(std::vector<Node> &order) const {
  std::vector<uint32_t> first(nodes.size() + 1), waiting(nodes.size());
  for (auto [from, to] : edges) {
    ++first[from + 1];
    ++waiting[to];
  }
  for (size_t n = 0; n != nodes.size(); ++n)
    first[n + 1] += first[n];
  std::vector<Node> successors(edges.size());
  std::vector<uint32_t> at(first.begin(), first.end() - 1);
  for (auto [from, to] : edges)
    successors[at[from]++] = to;

  // Popped levels never decrease: what becomes ready starts no earlier than what made it so.
  std::vector<uint64_t> level(nodes.size());
  using Entry = std::tuple<uint64_t, uint64_t, Node>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  for (Node n = 0; n != nodes.size(); ++n)
    if (waiting[n] == 0)
      ready.emplace(0, nodes[n].tie, n);
  order.clear();
  order.reserve(nodes.size());
  while (!ready.empty()) {
    Node node = std::get<Node>(ready.top());
    ready.pop();
    order.push_back(node);
    uint64_t end = level[node] + nodes[node].weight;
    for (uint32_t s = first[node]; s != first[node + 1]; ++s) {
      Node next = successors[s];
      level[next] = std::max(level[next], end);
      if (--waiting[next] == 0)
        ready.emplace(level[next], nodes[next].tie, next);
    }
  }
  if (order.size() == nodes.size())
    return true;

  // Every node that is left has a predecessor that is left: going backwards from one of them closes a cycle.
  std::vector<Node> predecessor(nodes.size(), ~Node(0));
  for (auto [from, to] : edges)
    if (waiting[from] != 0 && waiting[to] != 0)
      predecessor[to] = from;
  Node node = 0;
  while (waiting[node] == 0)
    ++node;
  std::vector<bool> seen(nodes.size());
  for (; !seen[node]; node = predecessor[node])
    seen[node] = true;
  order.clear();
  Node start = node;
  do {
    order.push_back(node);
    node = predecessor[node];
  } while (node != start);
  return false;
}

} // namespace pipec
