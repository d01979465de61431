// Enumerates all words of one rank under its memory limit. Other ranks count only as data paths with their least times.
// The shortest of these words is a lower bound of the step. The search runs over states and merges states where there
// are too many, so it stays small.
//
// A node is how many letters of each kind have run. The rest of a word, and its memory, depend only on the node. When
// the rest can run depends on the node's state: the time, and when inputs arrive for microbatches that are between two
// passes of the rank. A state with no time later than another's can do everything the other can, no later. So a node
// keeps only states that no other state is ahead of. Two states may be merged into one that has the earlier of each
// time and is therefore ahead of both; the end of the best word from there on is then a lower bound. Letters start as
// early as they can, in the order of the word, since waiting gains nothing.
//
// The passes of a microbatch on the rank form a chain: F of its stages downwards, then B upwards. W of all stages count
// as one kind, which is as short as the shortest W and frees as much as the largest; this makes no word longer.
#include "compiler/schedule/bounds/BoundsMemory.h"
#include "runtime/plan/Limits.h"

#include <array>
#include <map>
#include <optional>

namespace pipec::schedule::bounds {

namespace {

constexpr size_t kStages = 2;
constexpr size_t kKinds = 2 * kStages + 1; // kinds of letters: those of the chain, and W
constexpr size_t kMostHeld = 16;           // most microbatches in the chain; one pass of each waits at a time
constexpr Time kLate = 4 * limits::kTime;  // all later times are taken for this one

using Counts = std::array<int32_t, kKinds>;

struct State {
  Time now = 0;                // since the rank's first start
  Time span = 0, makespan = 0; // lower bounds that follow from the last B of each stage
  // For each pass of the chain except the first, in order: when the inputs of the waiting microbatches arrive.
  std::array<Time, kMostHeld> inputs = {};
  size_t waiting = 0;

  Time take(size_t at) {
    const Time time = inputs[at];
    std::copy(inputs.begin() + at + 1, inputs.begin() + waiting--, inputs.begin() + at);
    return time;
  }
  void insert(size_t at, Time time) {
    std::copy_backward(inputs.begin() + at, inputs.begin() + waiting, inputs.begin() + waiting + 1);
    inputs[at] = time;
    ++waiting;
  }
  /// Whether no time of this state is later than the same time of the other.
  bool isAheadOf(const State &other) const {
    if (now > other.now || span > other.span || makespan > other.makespan)
      return false;
    for (size_t i = 0; i < waiting; ++i)
      if (std::max(now, inputs[i]) > std::max(other.now, other.inputs[i]))
        return false;
    return true;
  }
  /// How far the times of the two states are apart, summed.
  Wide distance(const State &other) const {
    Wide sum = 0;
    for (size_t i = 0; i < waiting; ++i) {
      const Wide apart = Wide(std::max(now, inputs[i])) - std::max(other.now, other.inputs[i]);
      sum += std::max(apart, -apart);
    }
    return sum + std::max(other.now, now) - std::min(other.now, now);
  }
  void merge(const State &other) {
    for (size_t i = 0; i < waiting; ++i)
      inputs[i] = std::min(std::max(now, inputs[i]), std::max(other.now, other.inputs[i]));
    now = std::min(now, other.now);
    span = std::min(span, other.span);
    makespan = std::min(makespan, other.makespan);
  }
};

class RankWords {
public:
  RankWords(const View &view, const RankView &rank, Wide around, size_t mostHeld)
      : count(int32_t(view.microbatches)), mostHeld(mostHeld), capacity(rank.capacity),
        optimizer(clamped(rank.optimizer)) {
    const StageView &first = view.stages[size_t(rank.stages.front())];
    Wide before = 0, weight = kNever, freed = 0;
    const auto add = [&](Wide start, Wide length, Wide bytes) {
      chain.push_back({clamped(length), clamped(start - before), bytes, 0, 0});
      before = start;
    };
    for (const int32_t s : rank.stages) {
      const StageView &stage = view.stages[size_t(s)];
      add(stage.headF, stage.f, stage.a + stage.o);
      weight = std::min(weight, stage.w);
      freed = std::max(freed, stage.o);
    }
    for (size_t i = rank.stages.size(); i-- > 0;) {
      const StageView &stage = view.stages[size_t(rank.stages[i])];
      add(stage.headB, stage.b, -stage.a);
      chain.back().span = clamped(stage.rankTail);
      chain.back().makespan = clamped(stage.tail);
    }
    chain.back().span = std::max(chain.back().span, clamped(first.headF + first.upTo + around));
    hasWeights = weight > 0 || freed > 0;
    weights = {clamped(weight), 0, -freed, 0, 0};
  }

  /// The least makespan and span, counted from the rank's first start. Keeps at most `newWidth` states per node. None
  /// if all nodes together have more than `most` states.
  std::optional<State> shortest(size_t newWidth, size_t most) {
    width = newWidth;
    std::map<Counts, std::vector<State>> layer, next;
    layer[{}].push_back({});
    const size_t letters = size_t(count) * (chain.size() + (hasWeights ? chain.size() / 2 : 0));
    size_t states = 0;
    for (size_t n = 0; n < letters; ++n, layer.swap(next)) {
      next.clear();
      for (auto &[counts, all] : layer) {
        thin(all);
        states += all.size();
        for (const State &state : all)
          extend(counts, state, next);
      }
      if (states > most)
        return std::nullopt;
    }
    std::optional<State> least;
    for (const auto &[counts, all] : layer)
      for (State state : all) {
        state.span = std::max(state.span, state.now + optimizer);
        state.makespan = std::max(state.makespan, state.now + optimizer);
        if (!least)
          least = state;
        least->merge(state);
      }
    return least;
  }

  /// Whether states were merged; the result may then be below the shortest word.
  bool isMerged() const { return isAnyMerged; }

private:
  struct Letter {
    Time length = 0;
    Time after = 0; // least time from the start of the pass before it
    Wide bytes = 0;
    Time span = 0, makespan = 0; // least times from the end of the last such B to the end of span and makespan
  };

  const int32_t count;
  const size_t mostHeld;
  const Wide capacity;
  const Time optimizer;
  bool hasWeights = false;
  size_t width = 1; // most states per node
  bool isAnyMerged = false;
  std::vector<Letter> chain;
  Letter weights;

  static Time clamped(Wide time) { return Time(std::clamp<Wide>(time, 0, limits::kTime)); }

  void extend(const Counts &counts, const State &state, std::map<Counts, std::vector<State>> &next) {
    Wide held = weights.bytes * counts[chain.size()];
    for (size_t k = 0; k < chain.size(); ++k)
      held += chain[k].bytes * counts[k];
    size_t input = 0; // index of the first input that waits for this pass
    for (size_t k = 0; k < chain.size(); ++k) {
      const size_t waiting = k == 0 ? 0 : size_t(counts[k - 1] - counts[k]);
      const bool isThere = k == 0 ? counts[0] < count && state.waiting < mostHeld : waiting > 0;
      if (isThere && held + std::max<Wide>(chain[k].bytes, 0) <= capacity) {
        State after = state;
        if (k > 0)
          after.now = std::max(after.now, after.take(input));
        if (k + 1 < chain.size()) {
          const size_t behind = size_t(counts[k] - counts[k + 1]) + (waiting > 0 ? waiting - 1 : 0);
          after.insert(input + behind, std::min(kLate, after.now + chain[k + 1].after));
        }
        after.now = std::min(kLate, after.now + chain[k].length);
        if (counts[k] + 1 == count) {
          after.span = std::max(after.span, after.now + chain[k].span);
          after.makespan = std::max(after.makespan, after.now + chain[k].makespan);
        }
        put(counts, k, std::move(after), next);
      }
      input += waiting;
    }
    int32_t backwards = 0;
    for (size_t k = chain.size() / 2; k < chain.size(); ++k)
      backwards += counts[k];
    if (hasWeights && counts[chain.size()] < backwards) {
      State after = state;
      after.now = std::min(kLate, after.now + weights.length);
      put(counts, chain.size(), std::move(after), next);
    }
  }

  void put(Counts counts, size_t kind, State state, std::map<Counts, std::vector<State>> &next) {
    ++counts[kind];
    std::vector<State> &all = next[counts];
    for (const State &other : all)
      if (other.isAheadOf(state))
        return;
    std::erase_if(all, [&](const State &other) { return state.isAheadOf(other); });
    all.push_back(std::move(state));
    if (all.size() > 2 * width)
      thin(all);
  }

  /// Merges the neighbours in time that differ least until `width` states are left.
  void thin(std::vector<State> &all) {
    if (all.size() <= width)
      return;
    std::sort(all.begin(), all.end(),
              [](const State &x, const State &y) { return x.now != y.now ? x.now < y.now : x.inputs < y.inputs; });
    isAnyMerged = true;
    while (all.size() > width) {
      size_t nearest = 0;
      Wide least = kNever;
      for (size_t i = 0; i + 1 < all.size(); ++i)
        if (const Wide distance = all[i].distance(all[i + 1]); distance < least) {
          least = distance;
          nearest = i;
        }
      all[nearest].merge(all[nearest + 1]);
      all.erase(all.begin() + ptrdiff_t(nearest) + 1);
    }
  }
};

} // namespace

/// For the rank with the scarcest memory, if it has two stages and holds few microbatches. With more microbatches there
/// are too many nodes, and with one stage the memory chain proves as much. Where memory alone takes far less time than
/// the bound so far, the search is skipped.
bool words(const View &view, Best &best) {
  constexpr Wide kNodes = 100'000, kStates = 2 * kNodes;
  const Narrowest narrow = narrowest(view);
  const RankView *rank = narrow.rank;
  if (!view.inOrder || !rank || rank->stages.size() != kStages || 4 * narrow.fill * view.microbatches <= 3 * best.span)
    return false;
  Wide least = kNever; // least bytes that a microbatch holds on one stage
  for (const int32_t s : rank->stages)
    least = std::min(least, view.stages[size_t(s)].a + view.stages[size_t(s)].o);
  const Wide held = least == 0 ? kNever : rank->capacity / least;
  const Wide nodes = held <= Wide(kMostHeld) ? held * held * held * view.microbatches : kNever; // an upper estimate
  if (nodes > kNodes)
    return false;
  Wide around = -kNever;
  for (const RankView *other : byFirstStage(view)) {
    around = std::max(around, aroundOf(view, *other));
    if (other == rank)
      break;
  }
  const Wide head = view.stages[size_t(rank->first)].headF;
  RankWords own(view, *rank, around, size_t(held));
  const auto shortest = own.shortest(size_t(std::clamp<Wide>(kStates / nodes, 2, 16)), size_t(kStates));
  if (shortest)
    best.offer(head + shortest->makespan, shortest->span, Argument::MemoryChain);
  return shortest && !own.isMerged();
}

} // namespace pipec::schedule::bounds
