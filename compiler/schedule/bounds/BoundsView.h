// Data that all arguments of the lower bounds use: a problem's costs, data latencies and sizes by stage and by rank,
// under the names of Bounds.cpp, and how much fits into a rank's memory. Sums have 128 bits, so nothing overflows.
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
  Wide r = 0;     // cost of R, which b does not include
  Wide again = 0; // bytes that R adds to the input; the input itself is a
  /// Bytes that a microbatch between its F and its B here holds on the rank: a + o of this stage and of the rank's
  /// lower stages in the same copy.
  Wide holds = 0;
  Wide headF = 0, headB = 0, tail = 0, rankTail = 0;
  bool isFirst = false; // whether this is the lowest stage of its copy on the rank
  Wide start = 0;       // headF of the lowest stage of its copy on the rank
  /// From the end of its last B to the end of stage 0's last B: hand-overs and backwards of lower stages.
  Wide upTo = 0;

  Wide roundTrip() const { return headB - headF + b; }
};

struct RankView {
  std::vector<int32_t> stages;    // ascending
  int32_t first = 0;              // lowest stage of the copy that can begin first
  Wide reach = kNever;            // least time from the rank's first start to the start of its first B
  Wide tail = kNever;             // from the end of its last B to the end of the step, at least
  Wide work = 0, optimizer = 0;   // work includes the optimizer
  Wide forwards = 0, weights = 0; // of all microbatches
  Wide capacity = kNever;         // kNever without a limit
  Wide warmUp = 0;                // most F work before the first B
  Wide pending = 0;               // most W work after the last B
  Wide again = 0;                 // R work of all microbatches, which `work` is without
  Wide warmUpAgain = 0;           // most F and R work before the first B
};

struct View {
  Wide microbatches;
  bool inOrder; // one copy and no slices: microbatches may come back in the order in which they went
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

/// An upper bound of the value of any choice of up to `count` of each item within `capacity`: the knapsack's linear
/// relaxation, greedy by density. The capacity is first rounded down to a multiple of the sizes' common divisor, which
/// loses nothing and makes the relaxation exact for equal sizes.
Wide knapsack(const std::vector<Item> &items, Wide count, Wide capacity);

/// The least backward and weight time that frees `bytes` with at most `count` B. A B alone takes b and frees a; with
/// its W it takes b + w and frees a + o.
Wide leastToFree(const StageView &stage, Wide bytes, Wide count);

View makeView(const Problem &problem);

/// The rank with the scarcest memory: one microbatch alone would fill this rank's memory for the longest time. Null
/// without a limit.
struct Narrowest {
  const RankView *rank = nullptr;
  Wide fill = 0; // that time: bytes of a microbatch × the time it holds them / capacity
  Wide work = 0; // work of a microbatch on the rank
};
Narrowest narrowest(const View &view);

/// The ranks, sorted by their first stage.
std::vector<const RankView *> byFirstStage(const View &view);

/// A rank's own part in a bound of its span by way of another rank j. Between the rank's first start and its own end,
/// data goes down to j, j runs its step, and the last gradient comes back. That takes at least
///   headF(j) - headF, then the time of j, then upTo(j) - upTo, then rankTail,
/// where all values are those of first stages. Returns the part that does not depend on j: rankTail - headF - upTo.
Wide aroundOf(const View &view, const RankView &rank);

/// The largest bounds of makespan and span offered so far, each with its argument; of equal bounds the first stays.
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
