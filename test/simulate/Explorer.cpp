#include "test/simulate/Explorer.h"

#include <map>
#include <unordered_set>

namespace pipec::explore {

namespace {

/// Done items of each queue, one rank after the other; then of each rank, how many of its transfers have started.
using State = std::string;

class Explorer {
public:
  explicit Explorer(const Program &program) : program(program) {
    for (const Rank &rank : program) {
      first.push_back(int(queues.size()));
      for (size_t q = 0; q != rank.queues.size(); ++q)
        queues.push_back({int(first.size()) - 1, &rank.queues[q]});
      auto &places = startOf.emplace_back();
      for (size_t n = 0; n != rank.starts.size(); ++n)
        places[rank.starts[n]] = int(n);
    }
  }

  Outcome run() {
    std::vector<State> stack = {State(queues.size() + program.size(), '\0')};
    std::unordered_set<State> seen(stack.begin(), stack.end());
    while (!stack.empty()) {
      const State state = std::move(stack.back());
      stack.pop_back();
      ++outcome.states;
      int moves = 0;
      auto go = [&](State next) {
        ++moves;
        if (seen.insert(next).second)
          stack.push_back(std::move(next));
      };
      for (int q = 0; q != int(queues.size()); ++q)
        if (const Item *item = head(state, q))
          step(state, q, *item, go);
      for (size_t rank = 0; rank != program.size(); ++rank)
        start(state, rank, go);
      if (moves != 0)
        continue;
      ++outcome.finals;
      for (size_t q = 0; q != queues.size(); ++q)
        outcome.ends &= size_t(state[q]) == queues[q].second->size();
    }
    return outcome;
  }

private:
  /// The head of a queue, if its waits are met.
  const Item *head(const State &state, int q) const {
    const auto &[rank, queue] = queues[size_t(q)];
    if (size_t(state[size_t(q)]) == queue->size())
      return nullptr;
    const Item &item = (*queue)[size_t(state[size_t(q)])];
    for (const auto &[other, count] : item.waits)
      if (state[size_t(first[size_t(rank)] + other)] < count)
        return nullptr;
    return &item;
  }

  /// The next transfer of a rank starts, if it can.
  template <typename Go> void start(const State &state, size_t rank, Go go) {
    const size_t count = queues.size() + rank;
    const auto n = size_t(state[count]);
    if (n == program[rank].starts.size())
      return;
    const auto [queue, place] = program[rank].starts[n];
    const int q = first[rank] + queue;
    if (state[size_t(q)] != place || !head(state, q))
      return;
    State next = state;
    ++next[count];
    go(std::move(next));
  }
  /// Whether the head of a queue, a transfer, has started.
  bool started(const State &state, int q) const {
    const auto rank = size_t(queues[size_t(q)].first);
    const auto found = startOf[rank].find({q - first[rank], int(state[size_t(q)])});
    return found == startOf[rank].end() || found->second < int(state[queues.size() + rank]);
  }

  template <typename Go> void step(const State &state, int q, const Item &item, Go go) {
    if (item.kind == Item::Kind::Pass && item.members.empty()) {
      State next = state;
      ++next[size_t(q)];
      return go(std::move(next));
    }
    if (item.kind == Item::Kind::Recv || !started(state, q))
      return; // its send takes it along
    if (!item.members.empty())
      return meet(state, q, item, go);
    const int from = queues[size_t(q)].first;
    const size_t begin = size_t(first[size_t(item.peer)]);
    for (size_t other = begin; other != begin + program[size_t(item.peer)].queues.size(); ++other) {
      const Item *met = head(state, int(other));
      if (!met || met->kind != Item::Kind::Recv || met->peer != from || !started(state, int(other)))
        continue;
      outcome.mismatched |= met->tag != item.tag;
      State next = state;
      ++next[size_t(q)];
      ++next[other];
      go(std::move(next));
    }
  }

  /// A collective (a pass), once all its members have come to one; the first of them takes the others along.
  template <typename Go> void meet(const State &state, int q, const Item &item, Go go) {
    if (item.members.front() != queues[size_t(q)].first)
      return;
    State next = state;
    for (const int member : item.members) {
      bool there = false;
      for (int other = first[size_t(member)];
           other != first[size_t(member)] + int(program[size_t(member)].queues.size()); ++other) {
        const Item *met = head(state, other);
        if (there || !met || met->kind != item.kind || met->members.empty() || !started(state, other))
          continue;
        outcome.mismatched |= met->tag != item.tag;
        ++next[size_t(other)];
        there = true;
      }
      if (!there)
        return;
    }
    go(std::move(next));
  }

  const Program &program;
  std::vector<int> first;                                  // queue of each rank
  std::vector<std::pair<int, const Queue *>> queues;       // with their ranks
  std::vector<std::map<std::pair<int, int>, int>> startOf; // of each rank: place in `starts`, by queue and place there
  Outcome outcome;
};

} // namespace

Outcome explore(const Program &program) { return Explorer(program).run(); }

Program replicated(const Program &program, int degree) {
  Program all;
  for (size_t rank = 0; rank != program.size(); ++rank)
    for (int replica = 0; replica != degree; ++replica)
      for (Queue &queue : all.emplace_back(program[rank]).queues)
        for (Item &item : queue) {
          if (item.peer >= 0)
            item.peer = item.peer * degree + replica;
          for (int member = 0; (item.sums || item.kind == Item::Kind::Collective) && member != degree; ++member)
            item.members.push_back(int(rank) * degree + member);
        }
  return all;
}

std::string text(const Program &program) {
  std::string text;
  for (size_t rank = 0; rank != program.size(); ++rank)
    for (size_t q = 0; q != program[rank].queues.size(); ++q) {
      text += "rank " + std::to_string(rank) + " queue " + std::to_string(q) + ":";
      for (const Item &item : program[rank].queues[q]) {
        text += item.kind == Item::Kind::Pass         ? item.sums ? " pass with sums" : " pass"
                : item.kind == Item::Kind::Collective ? " collective " + std::to_string(item.tag)
                : item.kind == Item::Kind::Send
                    ? " send " + std::to_string(item.tag) + " to " + std::to_string(item.peer)
                    : " recv " + std::to_string(item.tag) + " from " + std::to_string(item.peer);
        for (const auto &[other, count] : item.waits)
          text += " [" + std::to_string(other) + " >= " + std::to_string(count) + "]";
        text += ";";
      }
      text += "\n";
    }
  return text;
}

} // namespace pipec::explore
