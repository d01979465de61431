// Modulo scheduling over ranks. On a rank of V placement four passes of a microbatch stand in an interval: F of the
// first chunk and B of the second on their way down the ranks, F of the second and B of the first on their way up. From
// a rank to the next, two streams that run towards each other shift against each other by both passes' lengths, two
// that run the same way by the difference. Where two would meet, one waits. So all that matters on a rank is where
// three of the streams stand relative to the fourth. A dynamic programme over the ranks, from the last one to the
// first, finds the least that a microbatch waits in all. Each stream goes on by itself, so a step from a rank to the
// next is one relaxation along each of the four streams.
#include "compiler/schedule/construct/FoldedStreams.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace pipec::schedule {

namespace {

class Folding {
public:
  Folding(const Fold &fold, int32_t interval) : fold(fold), n(interval), costs(fold.levels.size()) {}

  std::optional<std::vector<Slots>> run() {
    const size_t last = fold.levels.size() - 1;
    setAllowed(last);
    turn();
    for (size_t r = last; r > 0; --r) {
      costs[r - 1] = costs[r];
      for (const Stream stream : {kOut, kBack, kAgain, kHome})
        relax(costs[r - 1], stream, fold.levels[r].hop[stream]);
      if (!(fold.levels[r - 1] == fold.levels[r]))
        setAllowed(r - 1);
      for (size_t i = 0; i < allowed.size(); ++i)
        if (!allowed[i])
          costs[r - 1][i] = kNever;
    }
    return trace();
  }

private:
  using Cost = uint16_t;
  static constexpr Cost kNever = std::numeric_limits<Cost>::max() - 16;
  // Waiting behind F of the second chunk, or before its B, counts twice on the last ranks, so it costs a little more.
  static constexpr int32_t kOuter = 8, kInner = 9;
  static int32_t priceOf(size_t stream) { return stream == kOut || stream == kHome ? kOuter : kInner; }

  const Fold &fold;
  const int32_t n;
  std::vector<std::vector<Cost>> costs; // of each rank, by where the streams stand behind the first
  std::vector<char> allowed;            // on the rank at hand

  int32_t modulo(int32_t slot) const {
    slot %= n;
    return slot < 0 ? slot + n : slot;
  }
  size_t indexOf(int32_t back, int32_t again, int32_t home) const {
    return (size_t(back) * size_t(n) + size_t(again)) * size_t(n) + size_t(home);
  }
  template <typename Visit> void forEach(const Visit &visit) const {
    for (int32_t back = 0; back < n; ++back)
      for (int32_t again = 0; again < n; ++again)
        for (int32_t home = 0; home < n; ++home)
          visit(back, again, home);
  }
  bool areApart(int32_t x, int32_t xLength, int32_t y, int32_t yLength) const {
    const int32_t after = modulo(y - x);
    return after >= xLength && n - after >= yLength;
  }

  /// Puts each W into the first gap behind its B, that of the first chunk before that of the second.
  std::optional<std::array<int32_t, 2>> weightsOf(const Level &level, const std::array<int32_t, 4> &at) const {
    std::array<std::pair<int32_t, int32_t>, 6> busy;
    size_t count = 0;
    for (; count < 4; ++count)
      busy[count] = {at[count], level.length[count]};
    std::array<int32_t, 2> result{};
    for (const size_t chunk : {0, 1}) {
      const int32_t length = level.weight[chunk];
      const size_t backward = chunk == 0 ? kHome : kAgain;
      int32_t &start = result[chunk];
      const int32_t ready = start = at[backward] + level.length[backward];
      for (size_t i = 0; i < count && length > 0;) {
        const int32_t after = modulo(busy[i].first - start);
        if (after >= length && n - after >= busy[i].second) {
          ++i;
          continue;
        }
        start += after < length ? after + busy[i].second : busy[i].second - (n - after);
        if (start - ready >= n)
          return std::nullopt;
        i = 0;
      }
      busy[count++] = {start, length};
    }
    return result;
  }

  bool isAllowed(const Level &level, const std::array<int32_t, 4> &at) const {
    for (size_t x = 0; x < 4; ++x)
      for (size_t y = x + 1; y < 4; ++y)
        if (!areApart(at[x], level.length[x], at[y], level.length[y]))
          return false;
    return weightsOf(level, at).has_value();
  }

  void setAllowed(size_t r) {
    const Level &level = fold.levels[r];
    allowed.assign(size_t(n) * size_t(n) * size_t(n), 0);
    forEach([&](int32_t back, int32_t again, int32_t home) {
      if (areApart(0, level.length[kOut], back, level.length[kBack]))
        allowed[indexOf(back, again, home)] = isAllowed(level, {0, back, again, home});
    });
  }

  /// On the last rank F of the second chunk follows that of the first, B of the first that of the second.
  void turn() {
    const Level &level = fold.levels.back();
    costs.back().assign(allowed.size(), kNever);
    forEach([&](int32_t back, int32_t again, int32_t home) {
      const size_t i = indexOf(back, again, home);
      if (allowed[i])
        costs.back()[i] =
            Cost(kOuter * (modulo(back - level.length[kOut]) + modulo(home - again - level.length[kAgain])));
    });
  }

  /// Streams are placed relative to the first one: if that one moves, all others move the other way.
  void relax(std::vector<Cost> &cost, Stream stream, int32_t hop) const {
    const auto price = Cost(priceOf(stream));
    std::vector<Cost> line(static_cast<size_t>(n));
    std::vector<size_t> places(static_cast<size_t>(n));
    for (int32_t x = 0; x < n; ++x)
      for (int32_t y = 0; y < n; ++y) {
        for (int32_t i = 0; i < n; ++i)
          places[size_t(i)] = stream == kBack    ? indexOf(i, x, y)
                              : stream == kAgain ? indexOf(x, (n - i) % n, y)
                              : stream == kHome  ? indexOf(x, y, i)
                                                 : indexOf((x + i) % n, (y + i) % n, i);
        for (int32_t i = 0; i < n; ++i)
          line[size_t((i + hop) % n)] = cost[places[size_t(i)]];
        Cost now = kNever;
        for (int32_t turns = 0; turns < 2; ++turns)
          for (Cost &each : line) {
            now = std::min(each, now < kNever ? Cost(now + price) : kNever);
            each = now;
          }
        for (int32_t i = 0; i < n; ++i)
          cost[places[size_t(i)]] = line[size_t(i)];
      }
  }

  /// Back from the cheapest place on the first rank, where B of the second chunk follows its F.
  std::optional<std::vector<Slots>> trace() const {
    const Level &first = fold.levels.front();
    std::array<int32_t, 4> at{};
    int32_t least = kNever;
    forEach([&](int32_t back, int32_t again, int32_t home) {
      const Cost cost = costs[0][indexOf(back, again, home)];
      if (cost >= kNever)
        return;
      const int32_t all = cost + kInner * modulo(again - back - first.length[kBack]);
      if (all < least) {
        least = all;
        at = {0, back, again, home};
      }
    });
    if (least >= kNever)
      return std::nullopt;
    std::vector<std::array<int32_t, 4>> waits(fold.levels.size());
    std::vector<std::array<int32_t, 4>> places = {at};
    for (size_t r = 1; r < fold.levels.size(); ++r) {
      if (!stepBack(r, at, waits[r]))
        return std::nullopt;
      places.push_back(at);
    }
    return slotsOf(places, waits);
  }

  /// Where the streams stood on rank r, and what they waited from there to here.
  bool stepBack(size_t r, std::array<int32_t, 4> &at, std::array<int32_t, 4> &waits) const {
    const Level &level = fold.levels[r];
    const int32_t here = costs[r - 1][indexOf(at[kBack], at[kAgain], at[kHome])];
    for (int32_t all = 0; all * kOuter <= here; ++all)
      for (int32_t w0 = 0; w0 <= all; ++w0)
        for (int32_t w1 = 0; w0 + w1 <= all; ++w1)
          for (int32_t w2 = 0; w0 + w1 + w2 <= all; ++w2) {
            const std::array<int32_t, 4> each = {w0, w1, w2, all - w0 - w1 - w2};
            std::array<int32_t, 4> from{};
            int32_t price = 0;
            for (size_t stream = 0; stream < 4; ++stream) {
              const int32_t moved = level.hop[stream] + each[stream];
              from[stream] = at[stream] + (stream % 2 == 0 ? moved : -moved);
              price += each[stream] * priceOf(stream);
            }
            const int32_t origin = from[kOut];
            for (int32_t &place : from)
              place = modulo(place - origin);
            const Cost cost = costs[r][indexOf(from[kBack], from[kAgain], from[kHome])];
            if (cost < kNever && cost + price == here) {
              at = from;
              waits = each;
              return true;
            }
          }
    return false;
  }

  std::optional<std::vector<Slots>> slotsOf(const std::vector<std::array<int32_t, 4>> &places,
                                            const std::vector<std::array<int32_t, 4>> &waits) const {
    const size_t count = places.size();
    std::vector<Slots> slots(count);
    const auto step = [&](size_t r, size_t stream) { return fold.levels[r].hop[stream] + waits[r][stream]; };
    for (size_t r = 1; r < count; ++r)
      slots[r].at[kOut] = slots[r - 1].at[kOut] + step(r, kOut);
    const auto wait = [&](size_t r, Stream from, Stream to) {
      return slots[r].at[from] + fold.levels[r].length[from] +
             modulo(places[r][to] - places[r][from] - fold.levels[r].length[from]);
    };
    slots[count - 1].at[kBack] = wait(count - 1, kOut, kBack);
    for (size_t r = count - 1; r > 0; --r)
      slots[r - 1].at[kBack] = slots[r].at[kBack] + step(r, kBack);
    slots[0].at[kAgain] = wait(0, kBack, kAgain);
    for (size_t r = 1; r < count; ++r)
      slots[r].at[kAgain] = slots[r - 1].at[kAgain] + step(r, kAgain);
    slots[count - 1].at[kHome] = wait(count - 1, kAgain, kHome);
    for (size_t r = count - 1; r > 0; --r)
      slots[r - 1].at[kHome] = slots[r].at[kHome] + step(r, kHome);
    for (size_t r = 0; r < count; ++r) {
      const std::optional<std::array<int32_t, 2>> weights = weightsOf(fold.levels[r], places[r]);
      if (!weights)
        return std::nullopt;
      for (const size_t chunk : {0, 1}) {
        const size_t backward = chunk == 0 ? kHome : kAgain;
        slots[r].weight[chunk] = slots[r].at[backward] + (*weights)[chunk] - places[r][backward];
      }
    }
    return slots;
  }
};

} // namespace

std::optional<std::vector<Slots>> pass(const Fold &fold, int32_t interval) { return Folding(fold, interval).run(); }

} // namespace pipec::schedule
