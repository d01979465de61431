#include "compiler/passes/Graph.h"

#include <algorithm>
#include <functional>

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

  // Levels never decrease: what becomes ready starts no earlier than what made it so. Most wait for a later level; only
  // those of the level at hand are kept in order.
  using Entry = std::pair<uint64_t, Node>; // tie, node
  std::vector<std::vector<Entry>> byLevel;
  std::vector<uint32_t> level(nodes.size());
  auto note = [&](Node node) {
    if (level[node] >= byLevel.size())
      byLevel.resize(size_t(level[node]) + 1 + byLevel.size() / 2);
    byLevel[level[node]].emplace_back(nodes[node].tie, node);
  };
  for (Node n = 0; n != nodes.size(); ++n)
    if (waiting[n] == 0)
      note(n);
  order.clear();
  order.reserve(nodes.size());
  std::vector<Entry> ready;
  for (uint32_t now = 0; now < byLevel.size(); ++now) {
    ready = std::move(byLevel[now]);
    std::make_heap(ready.begin(), ready.end(), std::greater<>());
    while (!ready.empty()) {
      Node node = ready.front().second;
      std::pop_heap(ready.begin(), ready.end(), std::greater<>());
      ready.pop_back();
      order.push_back(node);
      const uint32_t end = now + nodes[node].weight;
      for (uint32_t s = first[node]; s != first[node + 1]; ++s) {
        Node next = successors[s];
        level[next] = std::max(level[next], end);
        if (--waiting[next] != 0)
          continue;
        if (level[next] > now) {
          note(next);
        } else {
          ready.emplace_back(nodes[next].tie, next);
          std::push_heap(ready.begin(), ready.end(), std::greater<>());
        }
      }
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
