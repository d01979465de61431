// What a rank cannot do while it waits for a microbatch that is elsewhere: during such a window, memory allows less
// work than the window is long.
//
// A microbatch goes through the stages of a rank, q = 0 to v - 1 from first to last, in a fixed order: F(0) to F(v-1),
// then B(v-1) to B(0), with W(q) at any time after B(q). After k of those 2v passes the microbatch holds at least
// size(k); at most work(k) of its work is done, and at most left(k) is left. W of backwards that have run are counted
// separately: each pending W holds one more context. Now consider all microbatches that hold memory at one time, within
// C bytes. The most work that they can have left, or can have done, is the value of the best choice of such states with
// these sizes: a knapsack.
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

  /// The most microbatches that can be between their F and their B of q.
  Wide most(size_t q) const { return of(q).holds == 0 ? view.microbatches : rank.capacity / of(q).holds; }

  /// Least idle time before the first B of q. Only passes that precede B(q) in their own microbatch run then; of the
  /// first microbatch all these passes run.
  Wide idleBefore(size_t q) const {
    const size_t k = 2 * v - 1 - q;
    return positive(of(q).headB - of(q).start - work[k] - done(q, rank.capacity - size[k]));
  }

  /// Least idle time from the end of F(q) to the start of B(q) of a microbatch. In between run the microbatch's own
  /// passes, what earlier microbatches have left, and, of later microbatches, passes before their B(q), which still
  /// hold memory.
  Wide idleBetween(size_t q) const {
    const Wide capacity = rank.capacity - of(q).holds;
    return positive(of(q).headB - of(q).headF - of(q).f - (work[2 * v - 1 - q] - work[q + 1]) - left(q, capacity) -
                    done(q, capacity));
  }

  /// The most work that can be left when the last F of q ends: the work left of microbatches that have done F(q).
  Wide leftAfter(size_t q) const { return all - work[q + 1] + left(q, rank.capacity - of(q).holds); }

private:
  /// Larger sizes exceed any capacity. They are cut to this size, so that products stay in 128 bits.
  static constexpr Wide kMostHeld = Wide(1) << 62;

  const View &view;
  const RankView &rank;
  const size_t v;
  Wide all = 0;
  std::vector<Wide> size, work;

  /// The most work done by microbatches that have not done B(q) and together hold no more than `capacity`.
  Wide done(size_t q, Wide capacity) const {
    std::vector<Item> items;
    for (size_t k = 1; k <= 2 * v - 1 - q; ++k)
      items.push_back({size[k], work[k]});
    return knapsack(items, view.microbatches, capacity);
  }

  /// The most work left of microbatches that have done F(q) and together hold no more than `capacity`.
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

/// For a rank and its stage y, let K < m microbatches fit between F(y) and B(y). Take the window from F(y) to B(y) of a
/// microbatch j; then that of the first microbatch with F(y) after B(y) of j, which is j + K at the latest; and so on.
/// These windows do not overlap, and at least floor((m-1)/K) of them follow the window of the first microbatch. All of
/// them lie after the start of the first B of any stage x >= y of the rank, and all but the last lie before the last F
/// of any z >= y. So the idle times before that B, in these windows and after that F add up. Instead of what follows
/// the last F, LB2's tail may follow the last B.
///
/// For the span there are two paths. The first goes from a rank's first start to its own end. The second concerns a
/// rank i with no later first stage: from i's first start a microbatch comes down to this rank, the time on this rank
/// passes, and the last microbatch goes back to i. Idle time in between is a way through other ranks, so everything
/// lies on one path.
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
    // Time that passes less the work done in it.
    Wide before = 0, after = -kNever, afterOnRank = -kNever, afterAround = -kNever;
    for (size_t y = rank.stages.size(); y-- > 0;) {
      const StageView &stage = own.of(y);
      const Wide k = std::max<Wide>(own.most(y), 1);
      if (k >= view.microbatches)
        break; // lower stages hold all microbatches too
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
