// Time advances in stretches no longer than the shortest letter. Within a stretch the search handles the ranks one
// after the other, since what a rank starts in a stretch reaches no other rank before the stretch ends.
// At the end of a stretch the search compares states by their use of the two resources that bound any order (Bounds.h).
// The first resource is rank time: the length of the letters that have run. The second resource is memory: a microbatch
// holds memory for each stage from its forward to its backward, at least for the time that the letters and hand-overs
// in between take. A letter counts its length as work. In memory it counts its length plus its hand-over time,
// multiplied by the fraction of memory that its microbatch holds meanwhile, summed over the stages with the forward
// done and the backward not.
#include "compiler/schedule/construct/Beam.h"

#include "compiler/schedule/evaluate/Evaluate.h"

#include "compiler/schedule/construct/BeamRanks.h"
#include "compiler/schedule/model/Random.h"

#include <algorithm>

namespace pipec::schedule {

namespace {

using View = BeamRanks::View;
using Score = __int128; // picoseconds, summed over the ranks

class Beam {
public:
  Beam(const Problem &problem, const Capacities &capacities, const BeamOptions &options)
      : problem(problem), options(options), views(problem, capacities, options.mostOfStage),
        ranks(size_t(problem.ranks)), best(options.below) {
    result.exhaustive = options.objective == Objective::Makespan && problem.copies == 1 && !problem.globalNorm &&
                        problem.shared.empty() && options.mostOfStage.empty();
    weigh(capacities);
    findHeads();
  }

  BeamResult run() {
    states.emplace_back();
    for (size_t rank = 0; rank < ranks; ++rank)
      rows.push_back(views.initial(int32_t(rank)));
    for (Time now = 0; !states.empty(); now = nextEvent(), ++stretches) {
      if (options.stop.stop_requested()) {
        result.exhaustive = false;
        break;
      }
      const Time end = now + views.shortest();
      lookAgain(end);
      for (size_t rank = 0; rank < ranks; ++rank) {
        decide(rank, now, end);
        if (states.size() > kOver * options.width)
          narrow();
      }
      finish(end);
      narrow();
      forget();
    }
    return std::move(result);
  }

private:
  /// States are dropped within a stretch when their number exceeds this multiple of the width.
  static constexpr size_t kOver = 4;

  /// A state of the search. The views of its ranks are in `rows`.
  struct State {
    Score gained = 0;  // credit for the memory use of the letters started
    Score wasted = 0;  // idle time of the ranks less `gained`
    int32_t node = -1; // the last letter started, as an index into `nodes`; -1: none
    int32_t letters = 0;
  };
  struct Node {
    int32_t before, stage;
    Letter letter;
  };

  const Problem &problem;
  const BeamOptions &options;
  BeamRanks views;
  const size_t ranks;
  Time best; // time of the best words so far, at first `options.below`
  /// By rank, for the span: earliest start of its first forward, which a following step need not wait for; makespan: 0.
  std::vector<Time> heads;
  std::array<std::vector<Time>, 2> worth; // credit for the memory use of an F and of a backward, by stage
  std::vector<State> states;
  std::vector<View> rows; // views, by state, then by rank
  std::vector<Node> nodes;
  int64_t stretches = 0;
  size_t lastNodes = 0, lastViews = 0; // sizes after the last forget()
  std::vector<BeamRanks::Choice> choices;
  std::vector<View> before;
  BeamResult result;

  View *row(size_t state) { return &rows[state * ranks]; }
  const View *row(size_t state) const { return &rows[state * ranks]; }

  void weigh(const Capacities &capacities) {
    constexpr Time kWhole = 1 << 16;
    Time shares = 0; // fractions of rank memory that a microbatch holds on the stages so far, summed, in 1 / kWhole
    for (size_t s = 0; s < problem.stages.size(); ++s) {
      const Stage &stage = problem.stages[s];
      if (!capacities.empty() && problem.before(int32_t(s)) < 0)
        shares = 0;
      if (!capacities.empty() && capacities[size_t(problem.rankOf[s])] > 0)
        shares += Time((__int128(stage.activation) + stage.context) * kWhole / capacities[size_t(problem.rankOf[s])]);
      for (const Letter letter : {Letter::F, Letter::B}) {
        const Letter kind = letter == Letter::B && problem.backward == BackwardMode::Fused ? Letter::BW : letter;
        const Score length = Score(costOf(stage, kind)) + views.consumer(int32_t(s), letter).handOver;
        // A forward enables later letters, so it gets extra credit. The factor 3/10 did best on the grid of test/bench.
        const Score begun = letter == Letter::F ? length * 3 / 10 : 0;
        worth[size_t(letter)].push_back(Time(length * shares / kWhole + begun));
      }
    }
  }

  void findHeads() {
    heads.assign(ranks, options.objective == Objective::Span ? BeamRanks::kNever : 0);
    Time head = 0;
    for (size_t s = 0; s < problem.stages.size(); ++s) {
      const int32_t before = problem.before(int32_t(s));
      head = before < 0 ? 0 : head + problem.stages[size_t(before)].forward + problem.handOver(before, int32_t(s));
      heads[size_t(problem.rankOf[s])] = std::min(heads[size_t(problem.rankOf[s])], head);
    }
  }

  Time nextEvent() const {
    Time next = BeamRanks::kNever;
    for (const View view : rows)
      next = std::min(next, views.event(view));
    return next;
  }

  Time idle(size_t rank, View view, Time now) const {
    return views.idleUntil(int32_t(rank), view, now) - views.worked(view);
  }

  bool isLate(size_t rank, View view, Time now) const {
    return views.leastEnd(int32_t(rank), view, now) - heads[rank] >= best;
  }

  /// Computes what each state will have wasted at the end of this stretch if no rank starts another letter.
  void lookAgain(Time end) {
    for (size_t i = 0; i < states.size(); ++i) {
      states[i].wasted = -states[i].gained;
      for (size_t rank = 0; rank < ranks; ++rank)
        states[i].wasted += idle(rank, row(i)[rank], end);
    }
  }

  /// Extends each state by every choice that one rank has in this stretch. Ranks with higher numbers choose later: each
  /// may still start a letter at `begin`, and the result of that letter may reach this rank.
  void decide(size_t rank, Time begin, Time end) {
    const size_t count = states.size();
    size_t lost = 0;
    for (size_t i = 0; i < count; ++i) {
      const View old = row(i)[rank];
      if (views.event(old) >= end)
        continue;
      choices.clear();
      views.choices(int32_t(rank), old, begin, end, choices);
      const State from = states[i];
      before.assign(row(i), row(i) + ranks);
      bool isFirst = true; // the first choice replaces the state; later choices are appended
      for (const BeamRanks::Choice &choice : choices) {
        if (isLate(rank, choice.view, begin))
          continue;
        const size_t at = isFirst ? i : states.size();
        if (!isFirst) {
          states.push_back(from);
          rows.insert(rows.end(), before.begin(), before.end());
        }
        isFirst = false;
        take(at, rank, choice, end);
      }
      if (isFirst) {
        states[i].node = kLost;
        ++lost;
      }
    }
    if (lost > 0)
      keep([&](size_t i) { return states[i].node != kLost; });
  }
  static constexpr int32_t kLost = -2;

  void take(size_t at, size_t rank, const BeamRanks::Choice &choice, Time end) {
    State &state = states[at];
    const auto replace = [&](size_t of, View with) {
      View &view = row(at)[of];
      state.wasted += idle(of, with, end) - idle(of, view, end);
      view = with;
    };
    replace(rank, choice.view);
    if (choice.stage < 0)
      return;
    ++result.letters;
    nodes.push_back({state.node, choice.stage, choice.letter});
    state.node = static_cast<int32_t>(nodes.size()) - 1;
    ++state.letters;
    if (choice.letter != Letter::W) {
      const Time value = worth[choice.letter == Letter::F ? 0 : 1][size_t(choice.stage)];
      state.gained += value;
      state.wasted -= value;
    }
    const BeamRanks::Consumer &to = views.consumer(choice.stage, choice.letter);
    if (to.rank >= 0 && to.rank != int32_t(rank))
      replace(size_t(to.rank), views.withArrival(row(at)[size_t(to.rank)], to, choice.end + to.handOver));
  }

  /// Removes the states that are done, those that cannot beat `best`, and those in deadlock.
  void finish(Time end) {
    for (size_t i = 0; i < states.size(); ++i)
      if (isDone(i))
        offer(states[i].node);
    keep([&](size_t i) {
      bool goesOn = false;
      for (size_t rank = 0; rank < ranks; ++rank) {
        if (isLate(rank, row(i)[rank], end))
          return false;
        goesOn |= views.event(row(i)[rank]) != BeamRanks::kNever;
      }
      return goesOn;
    });
  }

  bool isDone(size_t state) const {
    for (size_t rank = 0; rank < ranks; ++rank)
      if (!views.isDone(int32_t(rank), row(state)[rank]))
        return false;
    return true;
  }

  void offer(int32_t node) {
    Words words(ranks);
    for (; node >= 0; node = nodes[size_t(node)].before) {
      const Node &it = nodes[size_t(node)];
      words[size_t(problem.rankOf[size_t(it.stage)])].push_back({it.stage, it.letter});
    }
    for (Word &word : words)
      std::reverse(word.begin(), word.end());
    const Time time = timeOf(problem, words, options.objective);
    if (time >= best)
      return;
    best = time;
    result.words = std::move(words);
  }

  uint64_t hashOf(size_t state) const {
    uint64_t hash = 0;
    for (size_t rank = 0; rank < ranks; ++rank)
      hash = mixed(hash, row(state)[rank]);
    return hash;
  }

  /// The number of states that continue. Where letters differ a lot in length, there are many more stretches than
  /// letters; fewer states then continue, which bounds the work.
  size_t widthNow() const {
    constexpr int64_t kUsual = 4; // stretches per letter
    const int64_t letters = 1 + (states.empty() ? 0 : states.front().letters);
    if (options.allOrNone || stretches <= kUsual * letters)
      return options.width;
    return std::max<size_t>(options.width * size_t(kUsual * letters) / size_t(stretches), 1);
  }

  /// Merges equal states, then keeps the best states; of equally good states the first.
  void narrow() {
    std::vector<std::pair<uint64_t, size_t>> hashes;
    for (size_t i = 0; i < states.size(); ++i)
      hashes.push_back({hashOf(i), i});
    std::sort(hashes.begin(), hashes.end());
    std::vector<size_t> kept;
    for (size_t i = 0; i < hashes.size(); ++i) {
      const auto &[hash, state] = hashes[i];
      bool isNew = true;
      for (size_t j = i; j-- > 0 && hashes[j].first == hash && isNew;)
        isNew = !std::equal(row(state), row(state) + ranks, row(hashes[j].second));
      if (isNew)
        kept.push_back(state);
    }
    if (const size_t width = widthNow(); kept.size() > width) {
      if (options.allOrNone)
        kept.clear();
      const auto last = kept.begin() + std::ptrdiff_t(std::min(width, kept.size()));
      std::nth_element(kept.begin(), last, kept.end(), [&](size_t a, size_t b) {
        return states[a].wasted != states[b].wasted ? states[a].wasted < states[b].wasted : a < b;
      });
      kept.erase(last, kept.end());
      result.exhaustive = false;
    }
    std::sort(kept.begin(), kept.end());
    auto next = kept.begin();
    keep([&](size_t i) { return next != kept.end() && *next == i && (++next, true); });
  }

  template <class Predicate> void keep(Predicate &&isKept) {
    size_t to = 0;
    for (size_t i = 0; i < states.size(); ++i) {
      if (!isKept(i))
        continue;
      if (to != i) {
        states[to] = states[i];
        std::copy(row(i), row(i) + ranks, row(to));
      }
      ++to;
    }
    states.resize(to);
    rows.resize(to * ranks);
  }

  /// Drops nodes and views that no state needs any more.
  void forget() {
    constexpr size_t kSpare = 1 << 20;
    if (views.size() > 2 * lastViews + kSpare) {
      views.forgetBut(rows);
      lastViews = views.size();
    }
    if (nodes.size() <= 2 * lastNodes + kSpare)
      return;
    std::vector<int32_t> numbers(nodes.size(), -1);
    for (const State &state : states)
      for (int32_t node = state.node; node >= 0 && numbers[size_t(node)] < 0; node = nodes[size_t(node)].before)
        numbers[size_t(node)] = 0;
    size_t count = 0;
    for (size_t node = 0; node < nodes.size(); ++node) {
      if (numbers[node] < 0)
        continue;
      Node moved = nodes[node];
      if (moved.before >= 0)
        moved.before = numbers[size_t(moved.before)];
      numbers[node] = static_cast<int32_t>(count);
      nodes[count++] = moved;
    }
    nodes.resize(count);
    for (State &state : states)
      if (state.node >= 0)
        state.node = numbers[size_t(state.node)];
    lastNodes = count;
  }
};

} // namespace

bool canBeam(const Problem &problem) { return BeamRanks::canView(problem); }

BeamResult beam(const Problem &problem, const Capacities &capacities, const BeamOptions &options) {
  return Beam(problem, capacities, options).run();
}

} // namespace pipec::schedule
