#include "compiler/transfers/TransferOrder.h"

#include "runtime/simulate/Price.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <queue>
#include <tuple>

namespace pipec {

using plan::Time;
using Node = Traffic::Node;

namespace {

constexpr uint32_t kNone = Traffic::kNone;

std::vector<uint32_t> rankOfPasses(const Traffic &traffic) {
  std::vector<uint32_t> ranks(traffic.passes.size());
  for (uint32_t rank = 0; rank != traffic.ranks(); ++rank)
    std::fill(ranks.begin() + traffic.first[rank], ranks.begin() + traffic.first[rank + 1], rank);
  return ranks;
}

/// For each transfer the longest chain of passes and transfers behind it, as if queues were free.
std::vector<Time> leftBehind(const Traffic &traffic, const TransferOrder &order, const std::vector<uint32_t> &rankOf) {
  std::vector<Time> left(traffic.moves.size()), behindPass(traffic.passes.size());
  for (size_t i = order.size(); i-- != 0;) {
    const Node node = order[i];
    if (traffic.isMove(node)) {
      const Traffic::Move &move = traffic.moves[traffic.moveAt(node)];
      left[traffic.moveAt(node)] = move.cost + move.latency + behindPass[move.consumer];
      continue;
    }
    const Traffic::Pass &pass = traffic.passes[node];
    const bool last = node + 1 == traffic.first[rankOf[node] + 1];
    behindPass[node] = pass.cost + std::max(last ? 0 : behindPass[node + 1], pass.out == kNone ? 0 : left[pass.out]);
  }
  return left;
}

/// A run in which queues are served by time.
class GreedyRun {
public:
  GreedyRun(const Traffic &traffic, const TransferOrder &any)
      : traffic(traffic), rankOf(rankOfPasses(traffic)), urgency(leftBehind(traffic, any, rankOf)),
        next(traffic.first.begin(), traffic.first.end() - 1), running(traffic.ranks()), arrived(traffic.moves.size()),
        busy(traffic.queues), waiting(traffic.queues) {
    order.reserve(traffic.size());
  }

  TransferOrder run() {
    for (uint32_t rank = 0; rank != traffic.ranks(); ++rank)
      startPass(rank);
    while (!events.empty()) {
      // All that happens at one time, then what can start because of it.
      now = events.top().at;
      while (!events.empty() && events.top().at == now) {
        const Event event = events.top();
        events.pop();
        take(event);
      }
      startMoves();
    }
    return std::move(order);
  }

private:
  enum class What : uint32_t { PassEnds, WireFree, Arrives };
  struct Event {
    Time at;
    What what;
    uint32_t which;
    bool operator>(const Event &other) const {
      return std::tie(at, what, which) > std::tie(other.at, other.what, other.which);
    }
  };

  void take(const Event &event) {
    if (event.what == What::PassEnds) {
      const uint32_t rank = rankOf[event.which];
      running[rank] = false;
      if (const uint32_t out = traffic.passes[event.which].out; out != kNone) {
        waiting[traffic.moves[out].sends].push_back(out);
        waiting[traffic.moves[out].receives].push_back(out);
        touched.push_back(traffic.moves[out].sends);
      }
      return startPass(rank);
    }
    const Traffic::Move &move = traffic.moves[event.which];
    if (event.what == What::WireFree)
      for (const uint32_t queue : {move.sends, move.receives}) {
        busy[queue] = false;
        touched.push_back(queue);
      }
    if (event.what == What::Arrives || move.latency == 0) {
      arrived[event.which] = true;
      startPass(rankOf[move.consumer]);
    }
  }

  void startPass(uint32_t rank) {
    const uint32_t pass = next[rank];
    if (running[rank] || pass == traffic.first[rank + 1])
      return;
    if (const uint32_t in = traffic.passes[pass].in; in != kNone && !arrived[in])
      return;
    running[rank] = true;
    order.push_back(pass);
    events.push({now + traffic.passes[pass].cost, What::PassEnds, next[rank]++});
  }

  /// Starts what can start on queues on which something has changed.
  void startMoves() {
    ready.clear();
    for (const uint32_t queue : touched)
      if (!busy[queue])
        for (const uint32_t move : waiting[queue])
          if (!busy[traffic.moves[move].sends] && !busy[traffic.moves[move].receives])
            ready.emplace_back(-urgency[move], move);
    touched.clear();
    std::sort(ready.begin(), ready.end());
    ready.erase(std::unique(ready.begin(), ready.end()), ready.end());
    for (const auto &[key, index] : ready) {
      const Traffic::Move &move = traffic.moves[index];
      if (busy[move.sends] || busy[move.receives])
        continue;
      for (const uint32_t queue : {move.sends, move.receives}) {
        busy[queue] = true;
        std::erase(waiting[queue], index);
      }
      order.push_back(traffic.nodeOf(index));
      events.push({now + move.cost, What::WireFree, index});
      if (move.latency != 0)
        events.push({now + move.cost + move.latency, What::Arrives, index});
    }
  }

  const Traffic &traffic;
  const std::vector<uint32_t> rankOf;
  const std::vector<Time> urgency;            // of transfers
  std::vector<uint32_t> next;                 // pass of each rank
  std::vector<bool> running;                  // a pass, by rank
  std::vector<bool> arrived;                  // transfers
  std::vector<bool> busy;                     // queues
  std::vector<std::vector<uint32_t>> waiting; // transfers, by queue
  std::vector<uint32_t> touched;              // queues
  std::vector<std::pair<Time, uint32_t>> ready;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events;
  Time now = 0;
  TransferOrder order;
};

/// The traffic with no transfer shorter than `least`.
Traffic slowed(Traffic traffic, Time least) {
  for (Traffic::Move &move : traffic.moves)
    move.cost = std::max(move.cost, least);
  return traffic;
}

Time meanCost(const Traffic &traffic) {
  __int128 sum = 0;
  for (const Traffic::Pass &pass : traffic.passes)
    sum += pass.cost;
  return traffic.passes.empty() ? 0 : Time(sum / __int128(traffic.passes.size()));
}

/// Whether Time holds the sum of all passes and transfers, these as long as on a slow network.
bool fits(const Traffic &traffic) {
  __int128 sum = 0;
  for (const Traffic::Pass &pass : traffic.passes)
    sum += pass.cost;
  for (const Traffic::Move &move : traffic.moves)
    sum += __int128(simulate::kSlower) * move.cost + move.latency;
  return sum + meanCost(traffic) * __int128(traffic.moves.size()) < std::numeric_limits<Time>::max();
}

/// The passes and transfers of the first microbatches alone. What is left of each rank's word is a word of that smaller
/// problem.
Traffic firstOf(const Traffic &traffic, int32_t microbatches) {
  Traffic some;
  some.queues = traffic.queues;
  std::vector<uint32_t> placed(traffic.passes.size(), kNone);
  for (uint32_t rank = 0; rank != traffic.ranks(); ++rank) {
    for (uint32_t pass = traffic.first[rank]; pass != traffic.first[rank + 1]; ++pass)
      if (traffic.passes[pass].microbatch < microbatches) {
        placed[pass] = uint32_t(some.passes.size());
        some.passes.push_back({traffic.passes[pass].cost, traffic.passes[pass].microbatch});
      }
    some.first.push_back(uint32_t(some.passes.size()));
  }
  for (Traffic::Move move : traffic.moves) {
    if (placed[move.producer] == kNone || placed[move.consumer] == kNone)
      continue;
    move.producer = placed[move.producer];
    move.consumer = placed[move.consumer];
    some.passes[move.producer].out = some.passes[move.consumer].in = uint32_t(some.moves.size());
    some.moves.push_back(move);
  }
  return some;
}

/// Least lengths of transfers under which queues are served by time, in eighths of a mean pass: the longer, the more
/// room the order leaves for what comes late.
constexpr Time kLeast[] = {0, 2};

TransferOrder byTimeWith(const Traffic &traffic, Time eighths, const TransferOrder &any) {
  return byTime(slowed(traffic, meanCost(traffic) * eighths / 8), any);
}

/// First start to last end, with transfers so many times as long, of each of kNetworks. Where queues do not count, no
/// order is shorter.
template <bool kQueues, size_t kNetworks>
std::array<Time, kNetworks> makespans(const Traffic &traffic, const TransferOrder &order,
                                      const std::array<int64_t, kNetworks> &slower) {
  using Times = std::array<Time, kNetworks>;
  const std::vector<uint32_t> rankOf = rankOfPasses(traffic);
  // Of a transfer, when what it carries is there: at its sender, then at its receiver.
  std::vector<Times> rankFree(traffic.ranks()), queueFree(traffic.queues), there(traffic.moves.size());
  Times last = {};
  for (const Node node : order) {
    if (traffic.isMove(node)) {
      const Traffic::Move &move = traffic.moves[traffic.moveAt(node)];
      Times &its = there[traffic.moveAt(node)];
      for (size_t n = 0; n != kNetworks; ++n) {
        Time start = its[n];
        if constexpr (kQueues)
          start = std::max({start, queueFree[move.sends][n], queueFree[move.receives][n]});
        const Time end = start + move.cost * slower[n];
        if constexpr (kQueues)
          queueFree[move.sends][n] = queueFree[move.receives][n] = end;
        its[n] = end + move.latency;
      }
      continue;
    }
    const Traffic::Pass &pass = traffic.passes[node];
    Times &free = rankFree[rankOf[node]];
    for (size_t n = 0; n != kNetworks; ++n) {
      free[n] = std::max(free[n], pass.in == kNone ? 0 : there[pass.in][n]) + pass.cost;
      last[n] = std::max(last[n], free[n]);
    }
    if (pass.out != kNone)
      there[pass.out] = free;
  }
  return last;
}

/// The network as it is, and a slow one.
template <bool kQueues> std::array<Time, 2> bothMakespans(const Traffic &traffic, const TransferOrder &order) {
  return makespans<kQueues, 2>(traffic, order, {1, simulate::kSlower});
}

__int128 priceOf(const std::array<Time, 2> &makespans) { return simulate::priceOf(makespans[0], makespans[1]); }

/// The least lengths to try: all of kLeast, or, where there is much to order, the one that is best for the first few
/// microbatches.
std::vector<Time> worthTrying(const Traffic &traffic) {
  constexpr size_t kMuch = size_t(1) << 17;
  std::vector<Time> all(std::begin(kLeast), std::end(kLeast));
  if (traffic.size() <= kMuch)
    return all;
  int32_t microbatches = 1;
  for (const Traffic::Pass &pass : traffic.passes)
    microbatches = std::max(microbatches, pass.microbatch + 1);
  const Traffic some =
      firstOf(traffic, int32_t(std::max<size_t>(1, size_t(microbatches) * kMuch / 2 / traffic.size())));
  const TransferOrder sweep = bySweep(some);
  auto price = [&](Time eighths) { return priceOf(bothMakespans<true>(some, byTimeWith(some, eighths, sweep))); };
  std::vector<__int128> prices;
  std::transform(all.begin(), all.end(), std::back_inserter(prices), price);
  return {all[size_t(std::min_element(prices.begin(), prices.end()) - prices.begin())]};
}

} // namespace

Time makespanOf(const Traffic &traffic, const TransferOrder &order) {
  return makespans<true, 1>(traffic, order, {1})[0];
}

TransferOrder bySweep(const Traffic &traffic) {
  TransferOrder order;
  order.reserve(traffic.size());
  std::vector<uint32_t> next(traffic.first.begin(), traffic.first.end() - 1), left(traffic.ranks());
  std::vector<bool> sent(traffic.moves.size());
  std::iota(left.begin(), left.end(), 0);
  for (bool progress = true; progress;) {
    progress = false;
    std::erase_if(left, [&](uint32_t rank) { return next[rank] == traffic.first[rank + 1]; });
    for (const uint32_t rank : left) {
      const Traffic::Pass &pass = traffic.passes[next[rank]];
      if (pass.in != kNone && !sent[pass.in])
        continue;
      progress = true;
      order.push_back(next[rank]++);
      if (pass.out == kNone)
        continue;
      sent[pass.out] = true;
      order.push_back(traffic.nodeOf(pass.out));
    }
  }
  if (!left.empty())
    order.clear();
  return order;
}

TransferOrder byTime(const Traffic &traffic, const TransferOrder &any) { return GreedyRun(traffic, any).run(); }

TransferOrder bestOrder(const Traffic &traffic, const std::vector<MakeOrder> &byWords) {
  if (!fits(traffic))
    return byWords.front()();
  const TransferOrder sweep = bySweep(traffic);
  const Time most = makespanOf(traffic, sweep);
  const __int128 least = priceOf(bothMakespans<false>(traffic, sweep)); // of any order
  TransferOrder best;
  __int128 price = 0;
  auto consider = [&](int64_t saves, auto make) {
    if (!best.empty() && least >= price - price / saves)
      return false;
    TransferOrder order = make();
    const std::array<Time, 2> taken = bothMakespans<true>(traffic, order);
    const __int128 its = priceOf(taken);
    if (taken[0] > most || (!best.empty() && its >= price - price / saves))
      return false;
    price = its;
    best = std::move(order);
    return true;
  };
  // Only the first is much more regular than the others.
  constexpr int64_t kRegular = 256, kOther = 4096, kByTime = 100;
  int64_t saves = consider(kOther, byWords.front()) ? kRegular : kOther;
  for (size_t i = 1; i <= byWords.size(); ++i)
    if (consider(saves, [&] { return i == byWords.size() ? sweep : byWords[i](); }))
      saves = kOther;
  if (least >= price - price / kByTime)
    return best;
  for (const Time eighths : worthTrying(traffic))
    consider(kByTime, [&] { return byTimeWith(traffic, eighths, sweep); });
  return best;
}

Rows rowsOf(const Traffic &traffic, const TransferOrder &order) {
  const std::vector<uint32_t> rankOf = rankOfPasses(traffic);
  Rows rows(traffic.ranks());
  for (const Node node : order) {
    if (!traffic.isMove(node)) {
      rows[rankOf[node]].push_back({Cell::Kind::Pass, node});
      continue;
    }
    const uint32_t move = traffic.moveAt(node);
    rows[rankOf[traffic.moves[move].producer]].push_back({Cell::Kind::Send, move});
    rows[rankOf[traffic.moves[move].consumer]].push_back({Cell::Kind::Recv, move});
  }
  return rows;
}

} // namespace pipec
