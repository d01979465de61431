// What a state of the beam (Beam.h) says of one rank, its *view*: how far the rank has got, what has reached it, what
// is under way to it, and what it may do next. A view never changes once it is made, and equal views are one and have
// one number. So a state of all ranks is a row of numbers, and two states are equal if their rows are.
#pragma once

#include "compiler/schedule/construct/ListSchedule.h"
#include "compiler/schedule/model/Problem.h"

#include <array>
#include <limits>
#include <vector>

namespace pipec::schedule {

class BeamRanks {
public:
  using View = uint32_t;
  static constexpr Time kNever = std::numeric_limits<Time>::max();

  /// Whether views can be made for a problem: not where passes have no length, backwards run in groups, a rank has very
  /// many stages, or times may add up to more than Time holds.
  static bool canView(const Problem &problem);
  /// Needs canView(problem). `mostOfStage`: as in BeamOptions.
  BeamRanks(const Problem &problem, const Capacities &capacities, const std::vector<int32_t> &mostOfStage);

  /// The length of the shortest letter. Within this time a rank starts one letter at most, and no other rank can tell.
  Time shortest() const { return least; }
  View initial(int32_t rank);
  /// When the rank may next start something, or will have waited longer than any good order lets it. kNever: the rank
  /// is done, or can do nothing before something reaches it that no rank has started yet.
  Time event(View view) const { return fields[offsets[view] + kEvent]; }
  bool isDone(int32_t rank, View view) const { return worked(view) == ranks[size_t(rank)].work; }
  /// The length of all letters that the rank has started.
  Time worked(View view) const { return fields[offsets[view] + kWorked]; }

  /// What a rank does: starts a letter, or nothing.
  struct Choice {
    View view = 0;
    int32_t stage = -1; // -1: it starts nothing
    Letter letter = Letter::F;
    Time end = 0;
  };
  /// All that a rank may do between `begin` and `end`, at most shortest() apart; left out is what is never better than
  /// something else that the rank may do.
  void choices(int32_t rank, View view, Time begin, Time end, std::vector<Choice> &result);

  /// Where a letter's result goes: to a stage's forwards or backwards.
  struct Consumer {
    int32_t rank = -1; // -1: nowhere
    size_t field = 0;
    Time handOver = 0;
  };
  const Consumer &consumer(int32_t stage, Letter letter) const {
    return stages[size_t(stage)].consumers[counterOf(letter)];
  }
  /// The view once it is known that another rank's result reaches the rank at `arrival`.
  View withArrival(View view, const Consumer &consumer, Time arrival);

  /// The soonest time at which the rank can work again, whatever other ranks start from `now` on.
  Time idleUntil(int32_t rank, View view, Time now) const;
  /// A lower bound of the rank's end of the step, from what this rank alone has still to do.
  Time leastEnd(int32_t rank, View view, Time now) const;
  /// When the optimizer of a rank that is done ends.
  Time end(int32_t rank, View view) const { return fields[offsets[view] + kFree] + ranks[size_t(rank)].optimizer; }

  /// Forgets all views but these, and numbers these anew.
  void forgetBut(std::vector<View> &kept);
  /// How much memory all views take, in numbers.
  size_t size() const { return fields.size(); }

private:
  // A view is a row of numbers: these fields, then each stage's counts, then what is under way to the rank, soonest
  // first, as its arrival and the count that it will raise.
  enum Field : size_t { kFree, kDeadline, kRefused, kWorked, kSoonest, kEvent, kFields };
  enum Count : size_t { kForwards, kBackwards, kWeights, kForwardsHere, kBackwardsHere, kCounts };

  struct StageView {
    std::array<Time, 3> cost; // F, B or BW, W
    __int128 activation = 0, context = 0;
    Time most = kNever; // microbatches between its forward and its backward
    int32_t rank = 0;
    size_t place = 0; // among its rank's
    std::array<Consumer, 3> consumers;
  };
  struct RankView {
    std::vector<int32_t> stages;
    __int128 capacity = 0;
    Time work = 0;            // of all its letters
    Time optimizer = 0;       // after them
    Time tail = 0;            // from its last backward to the end of the step, at least
    Time soonestNew = kNever; // what another rank starts now reaches this one that much later at least
    bool sameWeights = true;  // it does not matter which W comes first
  };
  using Draft = std::vector<Time>;

  int32_t microbatches;
  bool fused;
  Time least = kNever;
  std::vector<StageView> stages;
  std::vector<RankView> ranks;
  std::vector<Time> fields; // of all views
  std::vector<size_t> offsets;
  std::vector<uint64_t> hashes;
  std::vector<View> slots; // of the hash table: a view's number plus one; 0: free
  Draft draft, next, ahead;

  static size_t place(size_t stage, Count which) { return kFields + stage * kCounts + which; }
  static size_t underWay(const RankView &rank) { return place(rank.stages.size(), kForwards); }
  bool mayForward(const RankView &rank, const Draft &view, size_t stage) const;
  template <class Function> void eachOption(const RankView &rank, const Draft &view, Function &&offer) const;
  void receive(const RankView &rank, Draft &view, Time until) const;
  void settle(const RankView &rank, Draft &view);
  std::pair<const Time *, const Time *> extent(View view) const;
  void load(View view, Draft &into) const;
  View number(const Draft &view);
  void rehash(size_t size);
};

} // namespace pipec::schedule
