#include "compiler/passes/Graph.h"

#include <algorithm>
#include <functional>

namespace pipec {

Graph::Node Graph::add(uint32_t weight, uint64_t tie) {
  nodes.push_back({weight, tie});
  return Node(nodes.size() - 1);
}

bool Graph::sort(std::vector<Node> &order) const {
  // What a visit to a node reads and writes lies together: visits go all over the graph.
  struct State {
    uint64_t tie;
    uint32_t weight, waiting = 0; // predecessors that are not in the order yet
    uint32_t level = 0;           // at least
    uint32_t first = 0;           // of its successors
  };
  std::vector<State> states(nodes.size() + 1);
  for (auto [from, to] : edges) {
    ++states[from + 1].first;
    ++states[to].waiting;
  }
  for (size_t n = 0; n != nodes.size(); ++n) {
    states[n].tie = nodes[n].tie;
    states[n].weight = nodes[n].weight;
    states[n + 1].first += states[n].first;
  }
  std::vector<Node> successors(edges.size());
  for (auto [from, to] : edges)
    successors[states[from].first++] = to;
  for (size_t n = nodes.size(); n != 0; --n)
    states[n].first = states[n - 1].first;
  states[0].first = 0;

  // Levels never decrease: what becomes ready starts no earlier than what made it so. Most wait for a later level; only
  // those of the level at hand are kept in order.
  using Entry = std::pair<uint64_t, Node>; // tie, node
  std::vector<std::vector<Entry>> byLevel;
  auto note = [&](Node node) {
    const State &state = states[node];
    if (state.level >= byLevel.size())
      byLevel.resize(size_t(state.level) + 1 + byLevel.size() / 2);
    byLevel[state.level].emplace_back(state.tie, node);
  };
  for (Node n = 0; n != nodes.size(); ++n)
    if (states[n].waiting == 0)
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
      const uint32_t end = now + states[node].weight;
      for (uint32_t s = states[node].first; s != states[node + 1].first; ++s) {
        State &next = states[successors[s]];
        next.level = std::max(next.level, end);
        if (--next.waiting != 0)
          continue;
        if (next.level > now) {
          note(successors[s]);
        } else {
          ready.emplace_back(next.tie, successors[s]);
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
