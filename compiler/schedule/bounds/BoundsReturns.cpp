// A lower bound for a rank with two stages, from microbatches that wait for each other's memory. The rank's own work is
// not counted.
//
// Let F and G be the forwards of the rank's first and second stage, and T(i) the start of G(i). A microbatch that has
// begun G frees first its bytes of the second stage, then those of the first: a' when B' ends, at least R' after T(i);
// o' with the W that ends w' later; a when B ends, at least the way up U after B'; and o with its W. A microbatch
// between F and G holds a + o. Let n such microbatches, i + 1 to i + n, be waiting when G(i) starts. At that time
// memory must hold three things: the n microbatches, all bytes of microbatch i, and what the earlier microbatches have
// not freed. earliest(i, n) is the first time at which these fit, by the least times of the earlier microbatches; later
// times would free later. So T(i) >= earliest(i, 0). For j = i + n there are two cases. If F(j) starts after G(i), then
// T(j) >= T(i) + g + the way down from F to G. Otherwise at least n microbatches wait when G(i) starts, and T(j) >=
// earliest(i, n) + n g. For each n, the smaller of the two values is a lower bound of T(j).
#include "compiler/schedule/bounds/BoundsMemory.h"

#include <algorithm>
#include <array>

namespace pipec::schedule::bounds {

namespace {

class Returns {
public:
  Returns(const View &view, const RankView &rank)
      : first(view.stages[size_t(rank.stages[0])]), second(view.stages[size_t(rank.stages[1])]),
        count(size_t(view.microbatches)), capacity(std::max(rank.capacity, second.holds)),
        freed{{{second.a, {}}, {second.o, {}}, {first.a, {}}, {first.o, {}}}} {}

  void run() {
    const Wide down = second.headF - first.headF;
    for (size_t i = 0; i < count; ++i) {
      Wide time = down + Wide(i) * first.f;
      if (i > 0)
        time = std::max(time, start.back() + second.f);
      for (size_t n = 0; n < kBehind; ++n)
        earliest[n].push_back(std::max(time, fits(i, n)));
      time = earliest[0][i];
      for (size_t n = 1; n < kBehind && n <= i; ++n)
        time = std::max(time, std::min(start[i - n] + second.f + down, earliest[n][i - n] + Wide(n) * second.f));
      start.push_back(time);
      const Wide up = first.headB + first.b - second.headB - second.b;
      const Wide back = follow(0, time + second.roundTrip(), second.b);
      follow(1, back + second.w, second.w);
      const Wide end = follow(2, back + up, first.b);
      follow(3, end + first.w, first.w);
    }
  }

  /// The earliest ends of the last B of the second and of the first stage, counted from the rank's first start.
  Wide lastOfSecond() const { return freed[0].at.back(); }
  Wide lastOfFirst() const { return freed[2].at.back(); }

private:
  static constexpr size_t kBehind = 4;
  struct Freed {
    Wide bytes;
    std::vector<Wide> at; // by microbatch, not descending
  };
  /// State of the computation of earliest(·, n), which does not descend: how many of each kind have been freed so far.
  struct Cursor {
    std::array<size_t, 4> freed = {};
    Wide live = 0, time = 0;
    size_t begun = 0;
  };

  const StageView &first, &second;
  const size_t count;
  const Wide capacity;
  std::array<Freed, 4> freed;
  std::array<Cursor, kBehind> cursors;
  std::array<std::vector<Wide>, kBehind> earliest;
  std::vector<Wide> start;

  Wide follow(size_t kind, Wide time, Wide length) {
    std::vector<Wide> &at = freed[kind].at;
    at.push_back(at.empty() ? time : std::max(time, at.back() + length));
    return at.back();
  }

  /// The first time at which microbatch i, the n microbatches after it, and what earlier microbatches still hold fit
  /// together; kNever if they never fit.
  Wide fits(size_t i, size_t n) {
    Cursor &cursor = cursors[n];
    cursor.live += Wide(i - cursor.begun) * second.holds;
    cursor.begun = i;
    const Wide own = second.holds + Wide(n) * first.holds;
    if (own > capacity)
      return kNever;
    while (cursor.live + own > capacity) {
      size_t next = 0;
      for (size_t kind = 0; kind < freed.size(); ++kind)
        if (timeOf(cursor, kind) < timeOf(cursor, next))
          next = kind;
      cursor.time = std::max(cursor.time, timeOf(cursor, next));
      cursor.live -= freed[next].bytes;
      ++cursor.freed[next];
    }
    return cursor.time;
  }
  Wide timeOf(const Cursor &cursor, size_t kind) const {
    const std::vector<Wide> &at = freed[kind].at;
    return cursor.freed[kind] < at.size() ? at[cursor.freed[kind]] : kNever;
  }
};

} // namespace

void returns(const View &view, Best &best) {
  constexpr Wide kMost = 1 << 22; // microbatches of all ranks
  if (!view.inOrder || view.microbatches * Wide(view.ranks.size()) > kMost)
    return;
  Wide around = -kNever;
  for (const RankView *rank : byFirstStage(view)) {
    around = std::max(around, aroundOf(view, *rank));
    if (rank->capacity == kNever || rank->stages.size() != 2)
      continue;
    const StageView &first = view.stages[size_t(rank->stages[0])], &second = view.stages[size_t(rank->stages[1])];
    Returns own(view, *rank);
    own.run();
    const Wide makespan = std::max(own.lastOfFirst() + first.tail, own.lastOfSecond() + second.tail);
    const Wide itself = std::max(own.lastOfFirst() + first.rankTail, own.lastOfSecond() + second.rankTail);
    best.offer(first.headF + makespan, std::max(itself, first.headF + own.lastOfFirst() + first.upTo + around),
               Argument::MemoryChain);
  }
}

} // namespace pipec::schedule::bounds
