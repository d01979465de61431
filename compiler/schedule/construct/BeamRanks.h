// A *view* is what a state of the beam search (Beam.h) knows of one rank: how far the rank has got, which results have
// reached the rank, which are under way to it, and what the rank may do next. Views are immutable, and equal views
// share one number. A state of all ranks is therefore a row of numbers, and two states are equal if their rows are
// equal.
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

  /// Whether views can represent a problem. They cannot if a pass takes no time, backwards run in groups, a rank has
  /// too many stages, or the times may add up to more than limits::kTime.
  static bool canView(const Problem &problem);
  /// Needs canView(problem). `mostOfStage`: as in BeamOptions.
  BeamRanks(const Problem &problem, const Capacities &capacities, const std::vector<int32_t> &mostOfStage);

  /// The length of the shortest letter, in picoseconds. Within this time a rank starts at most one letter, and no other
  /// rank sees its result.
  Time shortest() const { return least; }
  View initial(int32_t rank);
  /// The next time at which the rank may start something, or at which it has waited longer than any good order would.
  /// kNever: the rank is done, or needs a result that no rank has started yet.
  Time event(View view) const { return fields[offsets[view] + kEvent]; }
  bool isDone(int32_t rank, View view) const { return worked(view) == ranks[size_t(rank)].work; }
  /// Total length of the letters that the rank has started, in picoseconds.
  Time worked(View view) const { return fields[offsets[view] + kWorked]; }

  /// A choice of a rank: to start a letter, or to start nothing.
  struct Choice {
    View view = 0;
    int32_t stage = -1; // -1: it starts nothing
    Letter letter = Letter::F;
    Time end = 0;
  };
  /// All choices of a rank between `begin` and `end`, which are at most shortest() apart. Choices that are never better
  /// than another choice are left out.
  void choices(int32_t rank, View view, Time begin, Time end, std::vector<Choice> &result);

  /// The consumer of a letter's result: the forwards or the backwards of a stage.
  struct Consumer {
    int32_t rank = -1; // -1: none
    size_t field = 0;
    Time handOver = 0;
  };
  const Consumer &consumer(int32_t stage, Letter letter) const {
    return stages[size_t(stage)].consumers[counterOf(letter)];
  }
  /// The view once a result from another rank is known to arrive at `arrival`.
  View withArrival(View view, const Consumer &consumer, Time arrival);

  /// The earliest time at which the rank can work again, whatever other ranks start from `now` on.
  Time idleUntil(int32_t rank, View view, Time now) const;
  /// A lower bound of the time at which the rank ends the step, from the rank's own remaining work alone.
  Time leastEnd(int32_t rank, View view, Time now) const;
  /// The end of the optimizer of a rank that is done with its passes.
  Time end(int32_t rank, View view) const { return fields[offsets[view] + kFree] + ranks[size_t(rank)].optimizer; }

  /// Forgets all views except `kept`, and renumbers `kept`.
  void forgetBut(std::vector<View> &kept);
  /// The memory of all views, in numbers of 8 bytes.
  size_t size() const { return fields.size(); }

private:
  // A view is a row of numbers: these fields, then the counts of each stage, then the results under way to the rank,
  // earliest first. A result under way is a pair: its arrival, and the index of the count that it will raise.
  enum Field : size_t { kFree, kDeadline, kRefused, kWorked, kSoonest, kEvent, kFields };
  enum Count : size_t { kForwards, kBackwards, kWeights, kForwardsHere, kBackwardsHere, kCounts };

  struct StageView {
    std::array<Time, 3> cost; // F, B or BW, W
    __int128 activation = 0, context = 0;
    Time most = kNever; // most microbatches between their forward and their backward
    int32_t rank = 0;
    size_t place = 0; // index among the stages of its rank
    std::array<Consumer, 3> consumers;
  };
  struct RankView {
    std::vector<int32_t> stages;
    __int128 capacity = 0;
    Time work = 0;            // length of all its letters, in picoseconds
    Time optimizer = 0;       // length of its optimizer steps
    Time tail = 0;            // least time from its last backward to the end of the step
    Time soonestNew = kNever; // least time until a letter that another rank starts now reaches this rank
    bool sameWeights = true;  // its W have one length and one size, so their order does not matter
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
  std::vector<View> slots; // hash table: number of a view plus one; 0: free
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
