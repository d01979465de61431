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
  // Visits go all over the graph, so what one visit reads and writes lies together.
  struct State {
    uint32_t tie;
    uint32_t waiting; // how many predecessors are not in the order yet
    uint32_t level;   // the largest that the predecessors in the order ask for
    uint32_t first;   // where its successors begin
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

  // A node that becomes ready starts at the level of the node that made it ready, or at most `longest` levels later. So
  // longest + 1 lists hold all that is ready, and only the list of the level at hand needs to be ordered: a heap.
  using Entry = uint64_t; // tie in the high half, node in the low
  std::vector<std::vector<Entry>> byLevel(size_t(longest) + 1);
  size_t left = 0; // how many entries byLevel holds
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
      // Nodes mostly come in the order in which they were added, but on many ranks at once: in more strands than a
      // processor's prefetcher follows.
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

  // Every node that is left has a predecessor that is left, so going backwards from any of them closes a cycle.
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
