#include "compiler/program/Graph.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace pipec {

Graph::Node Graph::add(uint32_t weight, uint32_t tie) {
  nodes.push_back({weight, tie});
  changed = true;
  return Node(nodes.size() - 1);
}

void Graph::findSuccessors() {
  for (Data &node : nodes)
    node.before = node.first = 0;
  for (auto [from, to] : edges) {
    ++nodes[from].first;
    ++nodes[to].before;
  }
  uint32_t end = 0;
  for (Data &node : nodes)
    node.first = end += node.first;
  successors.resize(edges.size());
  for (size_t e = edges.size(); e-- != 0;)
    successors[--nodes[edges[e].first].first] = edges[e].second;
}

bool Graph::sort(std::vector<Node> &order) {
  if (std::exchange(changed, false))
    findSuccessors();
  // What a visit to a node reads and writes lies together: visits go all over the graph.
  struct State {
    uint32_t tie;
    uint32_t waiting; // predecessors that are not in the order yet
    uint32_t level;   // at least
    uint32_t first;   // of its successors
    uint32_t weight;
  };
  std::vector<State> states;
  states.reserve(nodes.size() + 1);
  uint32_t longest = 0;
  for (const Data &node : nodes) {
    states.push_back({node.tie, node.before, 0, node.first, node.weight});
    longest = std::max(longest, node.weight);
  }
  states.push_back({0, 0, 0, uint32_t(successors.size()), 0});

  // Levels never decrease: what becomes ready starts no earlier than what made it so, and at most `longest` later. Most
  // wait for a later level; only those of the level at hand are kept in order.
  using Entry = uint64_t; // tie, node
  std::vector<std::vector<Entry>> byLevel(size_t(longest) + 1);
  size_t left = 0; // in byLevel
  auto note = [&](Node node) {
    byLevel[states[node].level % byLevel.size()].push_back(uint64_t(states[node].tie) << 32 | node);
    ++left;
  };
  for (Node n = 0; n != nodes.size(); ++n)
    if (states[n].waiting == 0)
      note(n);
  order.clear();
  order.reserve(nodes.size());
  std::vector<Entry> ready;
  constexpr size_t kAhead = 8;
  for (uint32_t now = 0; left != 0; ++now) {
    ready.swap(byLevel[now % byLevel.size()]);
    left -= ready.size();
    std::make_heap(ready.begin(), ready.end(), std::greater<>());
    while (!ready.empty()) {
      const Node node = Node(ready.front());
      std::pop_heap(ready.begin(), ready.end(), std::greater<>());
      ready.pop_back();
      order.push_back(node);
      // What is added one after the other mostly comes one after the other, in more strands than a processor follows.
      __builtin_prefetch(states.data() + std::min(size_t(node) + kAhead, nodes.size()));
      const uint32_t end = now + states[node].weight;
      for (uint32_t s = states[node].first; s != states[node + 1].first; ++s) {
        State &next = states[successors[s]];
        next.level = std::max(next.level, end);
        if (--next.waiting != 0)
          continue;
        if (next.level > now) {
          note(successors[s]);
        } else {
          ready.push_back(uint64_t(next.tie) << 32 | successors[s]);
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
    if (states[from].waiting != 0 && states[to].waiting != 0)
      predecessor[to] = from;
  Node node = 0;
  while (states[node].waiting == 0)
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
