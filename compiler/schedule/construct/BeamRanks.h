// The beam's view of one rank: how far it has got, what has reached it, what is under way to it, and what it may do
// next. A view never changes once it is made and equal ones are one, so that a state of all ranks is a row of numbers
// and two states are equal where their rows are.
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

  /// Whether it can: not passes of no length, backwards in groups, very many stages a rank, or times that may add up to
  /// more than Time holds.
  static bool canView(const Problem &problem);
  /// Needs canView(problem). `mostOfStage`: of each, microbatches between its forward and its backward; empty: any.
  BeamRanks(const Problem &problem, const Capacities &capacities, const std::vector<int32_t> &mostOfStage);

  /// No letter is shorter: within it a rank starts one letter at most, and no other rank notices.
  Time shortest() const { return least; }
  View initial(int32_t rank);
  /// When a rank may next start something, or has waited too long; kNever: not before something reaches it that is not
  /// known yet, or it is done.
  Time event(View view) const { return fields[offsets[view] + kEvent]; }
  bool isDone(int32_t rank, View view) const { return worked(view) == ranks[size_t(rank)].work; }
  /// Of letters started.
  Time worked(View view) const { return fields[offsets[view] + kWorked]; }

  /// What a rank does: starts a letter, or nothing.
  struct Choice {
    View view = 0;
    int32_t stage = -1; // -1: it starts nothing
    Letter letter = Letter::F;
    Time end = 0;
  };
  /// All that a rank may do between two times at most shortest() apart, but for what is never better than something
  /// else that it may do.
  void choices(int32_t rank, View view, Time begin, Time end, std::vector<Choice> &result);

  /// Where a letter's result goes: to a stage's forwards or backwards.
  struct Consumer {
    int32_t rank = -1; // -1: nowhere
    size_t field = 0;
    Time handOver = 0;
  };
  const Consumer &consumer(int32_t stage, Letter letter) const {
    return stages[size_t(stage)].consumers[letter == Letter::F ? 0 : letter == Letter::W ? 2 : 1];
  }
  /// The view when another rank's result is known to reach it at a time.
  View withArrival(View view, const Consumer &consumer, Time arrival);

  /// From when on the rank may work again, whatever reaches it that is not known at `now`, up to when that may be.
  Time idleUntil(int32_t rank, View view, Time now) const;
  /// No end of the step is earlier, seen from this rank alone.
  Time leastEnd(int32_t rank, View view, Time now) const;
  /// When its optimizer ends, of a rank that is done.
  Time end(int32_t rank, View view) const { return fields[offsets[view] + kFree] + ranks[size_t(rank)].optimizer; }

  /// Forgets all other views, and numbers these anew.
  void forgetBut(std::vector<View> &kept);
  /// About what views take.
  size_t size() const { return fields.size(); }

private:
  // Of a view; then for each stage its counts; then what is under way, soonest first: its arrival, and the count.
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
    Time soonestNew = kNever; // what no rank has decided yet reaches it that much later at least
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
  std::vector<View> slots; // of the hash table; a view and one
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
