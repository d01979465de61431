// LB6 with crossings: the memory chain of a stage, with one more constraint. Microbatches going down the stages and
// microbatches coming back must pass each other like trains on a single track: a rank is a block of track, and two
// trains can pass only between two blocks.
//
// Take a stage s and count times from its first F. The lateness x of F(i) at a stage is how much later F(i) runs there
// than `headF` says; the lateness y of B(j) is the same for `headB`. Neither lateness shrinks along the way. For i > j,
// let n be the first stage from s on at which B(j) runs before F(i). Further down, F(i) starts later and B(j) earlier,
// so B(j) runs first at all stages from n on and at no stage before n. Hence x >= y + R(n) at n, and y >= x - U(n) at n
// - 1, where U(n) = R(n-1) - f(n-1) - b(n-1), which is R(n) plus the transfers between n - 1 and n in both directions.
// For n = s there is no U, and for n after the last stage no R. If x - y lies between R(n) and U(n), the two pass
// freely. If x - y lies between U(n) and R(n-1), one of the two must wait. Which one waits is the only choice: waiting
// for more than the nearest crossing is useless.
//
// F(i) meets the backwards of earlier microbatches in their order, and B(j) meets the forwards of later microbatches in
// their order, since both run in order at each stage. So one number per microbatch is enough: a bound of its x after
// the meetings so far and, once the microbatch has turned, of its y. The number bounds x at n and y at n - 1. Two
// meetings may have the same n. Then x may have been raised at n only, by B(j'), but is needed at n - 1. There x - U(n)
// <= y' <= the lateness of B(j') at n - 1 <= the lateness of B(j), so the bound stays correct. The same holds for y at
// n.
//
// F(i) starts no earlier than F(i-1) ends. For memory, take any n and let j = i - K - n. When B(j) starts, at most j
// microbatches have freed their memory, so at most j + K have begun; of the i forwards before F(i), at least n run
// later. More backwards must run after B(j) starts: those that free what i + 1 microbatches hold beyond the capacity.
// They are at most K + n, namely those of microbatches j to i - 1. So F(i) starts, after B(j) starts, no earlier than n
// f plus the time of these backwards.
//
// All these bounds are maxima and sums. So, under the same choices, a state with no number later than another state's
// ends no later than the other state. Two states may be merged into a state that has the earlier of each number; the
// end of the merged state is a lower bound for both.
#include "compiler/schedule/bounds/BoundsMemory.h"
#include "runtime/plan/Limits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

namespace pipec::schedule::bounds {

namespace {

constexpr size_t kBefore = 2;             // only n below this are used; with more, states differ that would merge well
constexpr Time kLate = 4 * limits::kTime; // later times are cut to this time

class Line {
public:
  Line(const View &view, size_t s, Wide newK, Wide newWidth)
      : stage(view.stages[s]), k(size_t(newK)), count(size_t(view.microbatches)), width(size_t(newWidth)),
        size(kLast + k) {
    for (size_t n = view.stages.size(); n > s; --n) {
      const StageView &before = view.stages[n - 1];
      from.push_back(n == view.stages.size() ? -kLate : Time(view.stages[n].roundTrip()));
      until.push_back(Time(before.roundTrip() - before.f - before.b));
    }
    from.push_back(Time(stage.roundTrip()));
    until.push_back(kLate);
  }

  /// The earliest end of the last B of s, counted from the start of its first F. `earliest(i)` is the earliest start of
  /// F(i). `rest[n]` is how much later than the end of B(i-K-n) F(i) starts at least.
  template <typename Earliest> Time end(const std::array<Wide, kBefore> &rest, const Earliest &earliest) {
    all.assign(size, 0);
    for (size_t i = 0; i < count; ++i) {
      const Wide soonest = earliest(Wide(i));
      for (Time *state = all.data(); state != all.data() + all.size(); state += size) {
        Wide start = i == 0 ? 0 : std::max(state[kStart] + stage.f, soonest);
        if (i >= k) {
          comesBack(state, i - k);
          for (size_t n = 0; n < kBefore && n + k <= i; ++n)
            start = std::max(start, state[kBack + n] + rest[n]);
        }
        state[kStart] = state[kOwn] = Time(std::min<Wide>(start, kLate));
      }
      for (size_t j = i < k ? 0 : i - k + 1; j < i; ++j)
        meet(kLast + j % k);
      if (all.size() > size)
        thin();
      for (size_t at = 0; at < all.size(); at += size)
        all[at + kLast + i % k] = all[at + kOwn];
    }
    Time least = kLate;
    for (Time *state = all.data(); state != all.data() + all.size(); state += size) {
      for (size_t j = count - k; j < count; ++j)
        comesBack(state, j);
      least = std::min(least, state[kBack]);
    }
    return least;
  }

private:
  // The numbers of a state: the lateness of the latest F; the start of that F; the ends of the B of the latest
  // microbatches that are back, latest first; and the lateness of each of the latest k microbatches.
  enum : size_t { kOwn, kStart, kBack, kLast = kBack + kBefore };

  const StageView &stage;
  const size_t k, count, width, size;
  std::vector<Time> from, until; // R(n) and U(n), from behind the last stage to s
  std::vector<Time> all, next;   // states, one after the other
  std::vector<const Time *> order;

  void comesBack(Time *state, size_t j) const {
    const Wide at = state[kLast + j % k] + stage.roundTrip();
    std::copy_backward(state + kBack, state + kLast - 1, state + kLast);
    state[kBack] = Time(std::min<Wide>(j == 0 ? at : std::max(at, state[kBack] + stage.b), kLate));
  }

  void meet(size_t other) {
    const size_t before = all.size();
    for (size_t at = 0; at < before; at += size) {
      const Time own = all[at + kOwn], late = all[at + other], apart = own - late;
      const size_t n = size_t(std::lower_bound(until.begin(), until.end(), apart) - until.begin());
      if (from[n] <= apart)
        continue;
      if (n > 0) {
        all.resize(all.size() + size);
        std::copy_n(all.begin() + ptrdiff_t(at), size, all.end() - ptrdiff_t(size));
        (all.end() - ptrdiff_t(size))[ptrdiff_t(other)] = own - until[n - 1];
      }
      all[at + kOwn] = std::min(kLate, late + from[n]);
    }
    if (all.size() > 2 * width * size)
      thin();
  }

  /// Whether no number of `state` is later than the same number of `other`.
  bool isAhead(const Time *state, const Time *other) const {
    return std::equal(state, state + size, other, [](Time x, Time y) { return x <= y; });
  }
  double distance(const Time *state, const Time *other) const {
    double sum = 0;
    for (size_t i = 0; i < size; ++i)
      sum += std::abs(double(state[i]) - double(other[i]));
    return sum;
  }

  /// Drops each state that another state is ahead of. While there are still too many states, merges the neighbours that
  /// differ least.
  void thin() {
    order.clear();
    for (size_t at = 0; at < all.size(); at += size)
      order.push_back(&all[at]);
    std::sort(order.begin(), order.end(),
              [&](const Time *x, const Time *y) { return std::lexicographical_compare(x, x + size, y, y + size); });
    size_t kept = 0;
    for (const Time *state : order)
      if (std::none_of(order.begin(), order.begin() + ptrdiff_t(kept),
                       [&](const Time *other) { return isAhead(other, state); }))
        order[kept++] = state;
    order.resize(kept);
    std::vector<std::pair<double, size_t>> nearest; // distance to the state before, and index
    for (size_t i = 1; kept > width && i < kept; ++i)
      nearest.push_back({distance(order[i - 1], order[i]), i});
    std::sort(nearest.begin(), nearest.end());
    std::vector<bool> isMerged(kept);
    for (size_t i = 0; i + width < kept; ++i)
      isMerged[nearest[i].second] = true;
    next.clear();
    for (size_t i = 0; i < kept; ++i) {
      if (!isMerged[i])
        next.insert(next.end(), order[i], order[i] + size);
      else
        for (size_t e = 0; e < size; ++e)
          next[next.size() - size + e] = std::min(next[next.size() - size + e], order[i][e]);
    }
    all.swap(next);
  }
};

} // namespace

/// Examines the stage with the longest memory chain of K, unless that chain is clearly shorter than the bound so far.
/// Ranks with several stages are left out: there the memory of the other stages costs more time than crossings do. The
/// width limits the number of states, and longer chains get a smaller width.
void crossings(const View &view, Best &best) {
  constexpr Wide kMostWidth = 256, kWork = Wide(1) << 23;
  const Wide m = view.microbatches;
  size_t s = view.stages.size();
  Wide k = 1, step = 0;
  for (size_t i = 0; view.inOrder && i < view.stages.size(); ++i) {
    const StageView &stage = view.stages[i];
    const RankView &rank = view.ranks[size_t(view.rankOf[i])];
    const Wide held = stage.a + stage.o, capacity = rank.capacity;
    if (rank.stages.size() > 1 || held == 0 || capacity >= m * held || stage.roundTrip() > limits::kTime)
      continue;
    const Wide most = capacity / held;
    const Wide own = stage.roundTrip() + leastToFree(stage, (most + 1) * held - capacity, m) - stage.b;
    if (s == view.stages.size() || own * k > step * most) {
      s = i;
      k = most;
      step = own;
    }
  }
  if (k < 2)
    return;
  const StageView &stage = view.stages[s];
  const Wide held = stage.a + stage.o, capacity = view.ranks[size_t(view.rankOf[s])].capacity;
  const Wide idle = positive(stage.headB - stage.headF - k * stage.f);
  const auto earliest = [&](Wide i) {
    return i < k ? i * stage.f : idle + i * stage.f + leastToFree(stage, (i + 1) * held - capacity, m);
  };
  const Wide width = std::min({kMostWidth, Wide(std::sqrt(double(kWork / (m * k)))), kWork / (m * k * k)});
  if (width < 2 || 4 * step * m <= 3 * k * best.span)
    return;
  Line line(view, s, k, width);
  std::array<Wide, kBefore> rest;
  for (Wide n = 0; n < Wide(kBefore); ++n)
    rest[size_t(n)] = n * stage.f + leastToFree(stage, (k + n + 1) * held - capacity, k + n) - stage.b;
  const Wide end = stage.headF + line.end(rest, earliest);
  best.offer(end + stage.tail, end - stage.start + stage.rankTail, Argument::MemoryChain);
}

} // namespace pipec::schedule::bounds
