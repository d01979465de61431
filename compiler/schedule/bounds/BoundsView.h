// What the arguments of the lower bounds share: a problem's costs, ways and sizes by stage and by rank, under the names
// of Bounds.cpp, and how much fits into a rank's memory. Sums are of 128 bits, so nothing overflows.
#pragma once

#include "compiler/schedule/bounds/Bounds.h"

#include <algorithm>
#include <vector>

namespace pipec::schedule::bounds {

using Wide = __int128;
/// More than any time or size here, with room to add.
constexpr Wide kNever = Wide(1) << 120;

struct StageView {
  Wide f = 0, b = 0, w = 0, a = 0, o = 0;
  Wide holds = 0; // what a microbatch between its F and B here holds on the rank: a + o, and of the stages before it
  Wide headF = 0, headB = 0, tail = 0, rankTail = 0;
  bool isFirst = false; // of its copy on its rank
  Wide start = 0;       // headF of that first one
  Wide upTo = 0;        // all hops back and backwards of the stages before: from the last B's end here to stage 0's

  Wide roundTrip() const { return headB - headF + b; }
};

struct RankView {
  std::vector<int32_t> stages;    // ascending
  int32_t first = 0;              // of the copies on it, that of the one which can begin first
  Wide reach = kNever;            // from its first start to that of its first B
  Wide tail = kNever;             // after the end of its last B
  Wide work = 0, optimizer = 0;   // work includes the optimizer
  Wide forwards = 0, weights = 0; // of all microbatches
  Wide capacity = kNever;         // kNever without a limit
  Wide warmUp = 0;                // most F work before the first B
  Wide pending = 0;               // most W work after the last B
};

struct View {
  Wide microbatches;
  bool inOrder; // one copy, and microbatches are free to come back in the order in which they went
  std::vector<StageView> stages;
  std::vector<RankView> ranks;
  std::vector<int32_t> rankOf;
  bool overlaps = false; // a rank's forward and backward may run at once
};

struct Item {
  Wide size, value;
};

inline Wide positive(Wide value) { return std::max<Wide>(value, 0); }

inline Wide ceilDivide(Wide value, Wide by) { return (value + by - 1) / by; }

/// No choice of up to `count` of each item within `capacity` is worth more: the knapsack's linear relaxation, greedy by
/// density. The capacity is first rounded down to a multiple of the sizes' common divisor, which loses nothing and
/// makes the relaxation exact for equal sizes.
Wide knapsack(const std::vector<Item> &items, Wide count, Wide capacity);

/// The least backward and weight time that frees `bytes` with at most `count` B: a B alone frees a for b, with its W a
/// + o for b + w.
Wide leastToFree(const StageView &stage, Wide bytes, Wide count);

View makeView(const Problem &problem);

/// The rank whose memory a microbatch takes the longest to fill; none where memory is never short of anything.
struct Narrowest {
  const RankView *rank = nullptr;
  Wide fill = 0; // that long, in area
  Wide work = 0; // of a microbatch on it
};
Narrowest narrowest(const View &view);

/// The ranks by their first stage.
std::vector<const RankView *> byFirstStage(const View &view);

/// What follows the end of the last B of stage 0 up to the rank's own end, less what comes before its first start: from
/// its first start down to another rank, through what that one does, and back to its own end pass this, the ways from
/// stage 0 there and back to it, and that.
Wide aroundOf(const View &view, const RankView &rank);

/// The larger of each side, with its argument; the first of equals stays.
struct Best {
  Wide makespan = 0, span = 0;
  Argument makespanArgument = Argument::None, spanArgument = Argument::None;

  void offer(Wide newMakespan, Wide newSpan, Argument argument) {
    if (newMakespan > makespan) {
      makespan = newMakespan;
      makespanArgument = argument;
    }
    if (newSpan > span) {
      span = newSpan;
      spanArgument = argument;
    }
  }
};

} // namespace pipec::schedule::bounds
