// Moving letters forward into gaps. Where a rank waits for its next letter, a later one may run first if the later
// one's input is there, it ends before the wait does, and memory allows the move all the way. Then no letter starts
// later than before.
#include "compiler/schedule/improve/LocalSearch.h"

#include "compiler/schedule/evaluate/WordWalk.h"

#include <algorithm>
#include <array>
#include <deque>
#include <limits>
#include <optional>

namespace pipec::schedule {

namespace {

using Level = __int128; // sizes within the limits times as many microbatches may pass 2^63

class Filler {
public:
  Filler(const Problem &problem, const Capacities &capacities, Words &words)
      : problem(problem), capacities(capacities), words(words), farthest(64 + 8 * problem.stages.size()),
        ends(problem.stages.size()) {
    for (int32_t s = 0; s < static_cast<int32_t>(problem.stages.size()); ++s) {
      down.push_back(problem.after(s) >= 0 ? problem.handOver(s, s + 1) : 0);
      up.push_back(problem.before(s) >= 0 ? problem.handOver(s, s - 1) : 0);
      for (std::vector<Time> &each : ends[size_t(s)])
        each.reserve(size_t(problem.microbatches));
    }
  }

  /// Moves each letter, after those that it needs, to the earliest gap that takes it. Returns whether anything moved.
  bool pass() {
    std::vector<std::vector<Time>> starts;
    for (const Word &word : words)
      starts.emplace_back(word.size());
    if (Walk(problem, words, false).run(std::vector<Time>(words.size(), 0), &starts) != Walk::Outcome::Done)
      return false;
    begin(std::move(starts));
    moved = false;
    for (bool goesOn = true; goesOn;) { // there and back over the ranks, as passes go
      goesOn = false;
      for (size_t rank = 0; rank < words.size(); ++rank)
        goesOn |= advance(rank);
      for (size_t rank = words.size(); rank-- > 0;)
        goesOn |= advance(rank);
    }
    return moved;
  }

private:
  struct RankState {
    std::vector<Time> starts;
    std::vector<Level> levels; // live before each letter
    std::vector<size_t>
        gaps;          // letters before which the rank waits, long enough for some letter; ascending, before `next`
    size_t next = 0;   // the letter whose turn it is
    Time shortest = 1; // of its letters
  };

  const Problem &problem;
  const Capacities &capacities;
  Words &words;
  const size_t farthest;                              // that a letter moves
  std::vector<Time> down, up;                         // hand-over to the next stage, to the one before
  std::vector<std::array<std::vector<Time>, 3>> ends; // by stage and kind, of letters that had their turn
  std::vector<RankState> ranks;
  bool moved = false; // anything, in this pass

  /// Places a rank's letters whose inputs are known. Returns whether there were any.
  bool advance(size_t rank) {
    size_t &next = ranks[rank].next;
    const size_t before = next;
    for (; next < words[rank].size(); ++next) {
      const std::optional<Time> ready = readyOf(words[rank][next]);
      if (!ready)
        break;
      moved |= pull(rank, *ready);
    }
    return next > before;
  }

  Time lengthOf(const Op &op) const { return costOf(problem.stages[size_t(op.stage)], op.letter); }
  Level change(const Op &op) const { return changeOf(problem.stages[size_t(op.stage)], op.letter); }

  void begin(std::vector<std::vector<Time>> starts) {
    for (auto &kinds : ends)
      for (std::vector<Time> &each : kinds)
        each.clear();
    ranks.resize(words.size());
    for (size_t rank = 0; rank < words.size(); ++rank) {
      RankState &state = ranks[rank];
      state.starts = std::move(starts[rank]);
      state.gaps.clear();
      state.next = 0;
      state.levels.clear();
      state.shortest = std::numeric_limits<Time>::max();
      Level level = 0;
      for (const Op &op : words[rank]) {
        state.shortest = std::min(state.shortest, std::max<Time>(lengthOf(op), 1));
        state.levels.push_back(level);
        level += change(op);
      }
    }
  }

  /// When the input of the next letter of this kind is there and the letter before it has run; none: not known yet.
  std::optional<Time> readyOf(const Op &op) const {
    const auto s = static_cast<size_t>(op.stage);
    const size_t kind = counterOf(op.letter), n = ends[s][kind].size();
    Time ready = n > 0 ? ends[s][kind].back() : 0;
    const auto after = [&](const std::vector<Time> &producers, size_t at, Time handOver) {
      if (at >= producers.size())
        return false;
      ready = std::max(ready, producers[at] + handOver);
      return true;
    };
    bool known = true;
    if (kind == 0)
      known = problem.before(op.stage) < 0 || after(ends[s - 1][0], n, down[s - 1]);
    else if (kind == 2)
      known = after(ends[s][1], n, 0);
    else
      known = after(ends[s][0], size_t(problem.backwardOf(static_cast<int32_t>(n))), 0) &&
              (problem.after(op.stage) < 0 || after(ends[s + 1][1], n, up[s + 1]));
    return known ? std::optional(ready) : std::nullopt;
  }

  Time freeBefore(size_t rank, size_t at) const {
    return at == 0 ? 0 : ranks[rank].starts[at - 1] + lengthOf(words[rank][at - 1]);
  }

  /// Moves the next letter of a rank to the earliest place where it starts no sooner than `ready`; letters behind stay
  /// where they were. Returns whether it moved past another.
  bool pull(size_t rank, Time ready) {
    RankState &state = ranks[rank];
    const size_t from = state.next;
    const Op op = words[rank][from];
    const Time start = state.starts[from];
    size_t to = from;
    Time earliest = std::max(freeBefore(rank, from), ready);
    // A letter of no length takes time here, so that it cannot get behind itself.
    const Time length = std::max<Time>(lengthOf(op), 1);
    const Level added = std::max<Level>(change(op), 0);
    const Level capacity = capacities.empty() ? std::numeric_limits<Level>::max() : Level(capacities[rank]);
    size_t checked = from; // it fits beside all from here on
    for (size_t i = state.gaps.size(); i-- > 0;) {
      const size_t at = state.gaps[i];
      if (state.starts[at] < ready + length || from - at > farthest)
        break;
      const Time begin = std::max(freeBefore(rank, at), ready);
      if (begin + length > state.starts[at])
        continue;
      for (; added > 0 && checked > at; --checked)
        if (std::max(state.levels[checked], state.levels[checked - 1]) + added > capacity)
          break;
      if (added > 0 && checked > at)
        break;
      earliest = begin;
      to = at;
    }
    if (to < from)
      turn(rank, to);
    if (earliest < start || to < from)
      state.starts[to] = earliest;
    ends[size_t(op.stage)][counterOf(op.letter)].push_back(state.starts[to] + lengthOf(op));
    if (to < from)
      noteGap(rank, to + 1);
    noteGap(rank, to);
    return to < from;
  }

  void turn(size_t rank, size_t to) {
    RankState &state = ranks[rank];
    const auto rotate = [&](auto &list) {
      const auto first = list.begin() + static_cast<std::ptrdiff_t>(to);
      const auto last = list.begin() + static_cast<std::ptrdiff_t>(state.next);
      std::rotate(first, last, last + 1);
    };
    rotate(words[rank]);
    rotate(state.starts);
    const Level moved = change(words[rank][to]);
    for (size_t at = state.next; at > to; --at)
      state.levels[at] = state.levels[at - 1] + moved;
    const auto gap = std::lower_bound(state.gaps.begin(), state.gaps.end(), to);
    for (auto later = state.gaps.erase(gap); later != state.gaps.end(); ++later)
      ++*later;
  }

  /// Notes the gap before a letter if anything fits there.
  void noteGap(size_t rank, size_t at) {
    RankState &state = ranks[rank];
    if (state.starts[at] - freeBefore(rank, at) >= state.shortest)
      state.gaps.insert(std::upper_bound(state.gaps.begin(), state.gaps.end(), at), at);
  }
};

} // namespace

Words deferWeights(const Problem &problem, const Capacities &capacities, const Words &words) {
  const size_t most = 2 * problem.stages.size();
  Words result;
  for (size_t rank = 0; rank < words.size(); ++rank) {
    const Level capacity = capacities.empty() ? std::numeric_limits<Level>::max() : Level(capacities[rank]);
    Word &word = result.emplace_back();
    word.reserve(words[rank].size());
    std::deque<Op> pending;
    Level live = 0;
    const auto weight = [&] {
      live -= problem.stages[size_t(pending.front().stage)].context;
      word.push_back(pending.front());
      pending.pop_front();
    };
    for (const Op &op : words[rank]) {
      const Stage &stage = problem.stages[size_t(op.stage)];
      if (op.letter == Letter::W) {
        pending.push_back(op);
        if (pending.size() > most)
          weight();
        continue;
      }
      const Level change = changeOf(stage, op.letter);
      while (op.letter == Letter::F && live + change > capacity && !pending.empty())
        weight();
      live += change;
      word.push_back(op);
    }
    while (!pending.empty())
      weight();
  }
  return result;
}

int64_t fillGaps(const Problem &problem, const Capacities &capacities, Words &words, int64_t passes) {
  Filler filler(problem, capacities, words);
  for (int64_t pass = 1; pass <= passes; ++pass)
    if (!filler.pass())
      return pass;
  return passes;
}

} // namespace pipec::schedule
