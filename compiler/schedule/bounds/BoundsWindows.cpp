// What a rank cannot do while it waits for a microbatch that goes on elsewhere: windows of time in which its memory
// leaves it less work than they are long.
//
// A microbatch goes through the stages of a rank, q = 0 to v - 1 from the first to the last, in one order: F(0) to
// F(v-1), then B(v-1) to B(0); W(q) any time after B(q). After k of those 2v passes it holds at least size(k); at most
// work(k) of its work has been done, and at most left(k) is left. W of backwards that have run are counted apart: each
// that is left holds one more context. So the most work that can be left, or can have been done, of all microbatches
// that hold memory at one time, in C bytes, is that of the best choice of such states with these sizes: a knapsack.
#include "compiler/schedule/bounds/BoundsMemory.h"

#include <algorithm>

namespace pipec::schedule::bounds {

namespace {

class RankWindows {
public:
  RankWindows(const View &view, const RankView &rank) : view(view), rank(rank), v(rank.stages.size()) {
    for (size_t q = 0; q < v; ++q)
      all += of(q).f + of(q).b + of(q).w;
    Wide held = 0, spent = 0;
    for (size_t k = 0; k <= 2 * v; ++k) {
      size.push_back(std::min(held, kMostHeld));
      work.push_back(spent);
      if (k < v) {
        held += of(k).a + of(k).o;
        spent += of(k).f;
      } else if (k < 2 * v) {
        const StageView &stage = of(2 * v - 1 - k);
        held -= stage.a + stage.o;
        spent += stage.b + stage.w;
      }
    }
  }

  const StageView &of(size_t q) const { return view.stages[size_t(rank.stages[q])]; }

  /// How many microbatches can be between their F and B of q.
  Wide most(size_t q) const { return of(q).holds == 0 ? view.microbatches : rank.capacity / of(q).holds; }

  /// Before the first B of q, only passes that precede B(q) run, of any microbatch; of the first microbatch all of
  /// these.
  Wide idleBefore(size_t q) const {
    const size_t k = 2 * v - 1 - q;
    return positive(of(q).headB - of(q).start - work[k] - done(q, rank.capacity - size[k]));
  }

  /// From the end of F(q) to the start of B(q) of a microbatch, the passes between run of itself; of those before it,
  /// what they have left then; of those behind it, what precedes B(q), after which they hold memory yet.
  Wide idleBetween(size_t q) const {
    const Wide capacity = rank.capacity - of(q).holds;
    return positive(of(q).headB - of(q).headF - of(q).f - (work[2 * v - 1 - q] - work[q + 1]) - left(q, capacity) -
                    done(q, capacity));
  }

  /// The most work that can be left when the last F of q ends: what is left of microbatches that have had F(q).
  Wide leftAfter(size_t q) const { return all - work[q + 1] + left(q, rank.capacity - of(q).holds); }

private:
  /// All sizes beyond any capacity are made equal, so that their products stay in 128 bits.
  static constexpr Wide kMostHeld = Wide(1) << 62;

  const View &view;
  const RankView &rank;
  const size_t v;
  Wide all = 0;
  std::vector<Wide> size, work;

  /// The most work done of microbatches that have not had B(q) and hold no more than `capacity`.
  Wide done(size_t q, Wide capacity) const {
    std::vector<Item> items;
    for (size_t k = 1; k <= 2 * v - 1 - q; ++k)
      items.push_back({size[k], work[k]});
    return knapsack(items, view.microbatches, capacity);
  }

  /// The most work left of microbatches that have had F(q).
  Wide left(size_t q, Wide capacity) const {
    std::vector<Item> items;
    for (size_t k = q + 1; k < 2 * v; ++k)
      items.push_back({size[k], all - work[k]});
    for (size_t other = 0; other < v; ++other)
      items.push_back({of(other).o, of(other).w});
    return knapsack(items, view.microbatches, capacity);
  }
};

} // namespace

/// Of a rank and its stage y, let K microbatches fit between F(y) and B(y), K < m. Windows from F(y) to B(y) of
/// microbatches j, then of the first whose F(y) follows B(y) of j, which is j + K at the latest, and so on, do not
/// overlap, and there are floor((m-1)/K) of them behind that of the first microbatch. They all lie behind the start of
/// the first B of any stage x >= y of the rank, and all but the last before the last F of any z >= y. So what is idle
/// before that B, in these windows, and after that F adds up. In place of what follows the last F, LB2's tail follows
/// the last B.
///
/// For the span, the time from a rank's first start to its own end; and that of a rank i whose first stage is no later:
/// from its first start a microbatch comes down to here, all that goes on here passes, and then the last microbatch
/// goes back to there. What is idle between is a way through other ranks, so all of it is one path.
void windows(const View &view, Best &best) {
  if (!view.inOrder)
    return;
  Wide around = -kNever;
  for (const RankView *each : byFirstStage(view)) {
    const RankView &rank = *each;
    const StageView &first = view.stages[size_t(rank.first)];
    around = std::max(around, aroundOf(view, rank));
    if (rank.capacity == kNever)
      continue;
    const RankWindows own(view, rank);
    const Wide work = rank.work - rank.optimizer;
    Wide before = 0, after = -kNever, afterOnRank = -kNever, afterAround = -kNever; // what passes less what is worked
    for (size_t y = rank.stages.size(); y-- > 0;) {
      const StageView &stage = own.of(y);
      const Wide k = std::max<Wide>(own.most(y), 1);
      if (k >= view.microbatches)
        break; // nor is any lower one short of memory
      before = std::max(before, own.idleBefore(y));
      const Wide back = stage.roundTrip() - stage.f - own.leftAfter(y);
      after = std::max(after, back + stage.tail);
      afterOnRank = std::max({afterOnRank, back + stage.rankTail});
      afterAround = std::max(afterAround, back + stage.upTo + around);
      const Wide count = (view.microbatches - 1) / k, idle = own.idleBetween(y);
      const Wide begun = work + std::max(before, idle) + (count - 1) * idle;
      const Wide makespan = std::max({idle + rank.optimizer, idle + rank.tail - rank.pending, after});
      const Wide itself = std::max(idle + rank.optimizer, afterOnRank);
      const Wide other = first.headF + std::max(idle + first.upTo + around - rank.pending, afterAround);
      best.offer(first.headF + begun + makespan, begun + std::max(itself, other),
                 idle > 0 ? Argument::MemoryChain : Argument::WarmUp);
    }
  }
}

} // namespace pipec::schedule::bounds
