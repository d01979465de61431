// Moving letters forward into gaps. Where a rank waits for its next letter, a later one may run first if its input is
// there, it ends before the wait does, and memory allows it all the way: then no letter starts later than it did.
#include "compiler/schedule/LocalSearch.h"

#include "compiler/schedule/Evaluate.h"

#include <algorithm>
#include <array>
#include <deque>
#include <limits>

namespace pipec::schedule {

namespace {

using Level = __int128; // sizes within the limits times as many microbatches may pass 2^63

class Filler {
public:
  Filler(const Problem &problem, const Capacities &capacities, Words &words)
      : problem(problem), capacities(capacities), words(words), fused(problem.backward == BackwardMode::Fused),
        window(64 + 8 * size_t(problem.ranks)), stagesByRank(problem.stagesByRank()) {
    const auto count = static_cast<int32_t>(problem.stages.size());
    for (int32_t s = 0; s < count; ++s) {
      down.push_back(s + 1 < count ? problem.handOver(s, s + 1) : 0);
      up.push_back(s > 0 ? problem.handOver(s, s - 1) : 0);
    }
  }

  /// Whether anything moved.
  bool pass() {
    EvaluateOptions options;
    options.withSpan = false;
    options.withStarts = true;
    Evaluation evaluation = evaluate(problem, words, options);
    if (!evaluation.complete)
      return false;
    starts = std::move(evaluation.starts);
    noteEnds();
    bool moved = false;
    for (size_t rank = 0; rank < words.size(); ++rank)
      moved |= fill(rank);
    return moved;
  }

private:
  const Problem &problem;
  const Capacities &capacities;
  Words &words;
  const bool fused;
  const size_t window; // how far ahead a letter is looked for
  const std::vector<std::vector<int32_t>> stagesByRank;
  std::vector<std::vector<Time>> starts;
  std::vector<std::vector<Time>> forwardEnd, backwardEnd; // by stage and microbatch
  std::vector<Time> down, up;                             // hand-over to the next stage, to the one before
  std::vector<Op> possible;

  Time lengthOf(const Op &op) const { return costOf(problem.stages[size_t(op.stage)], op.letter); }
  Level change(const Op &op) const { return changeOf(problem.stages[size_t(op.stage)], op.letter); }

  void noteEnds() {
    forwardEnd.assign(problem.stages.size(), {});
    backwardEnd.assign(problem.stages.size(), {});
    for (size_t rank = 0; rank < words.size(); ++rank)
      for (size_t at = 0; at < words[rank].size(); ++at) {
        const Op &op = words[rank][at];
        if (op.letter == Letter::F)
          forwardEnd[size_t(op.stage)].push_back(starts[rank][at] + lengthOf(op));
        else if (op.letter != Letter::W)
          backwardEnd[size_t(op.stage)].push_back(starts[rank][at] + lengthOf(op));
      }
  }

  /// When the input of a letter is there; of the microbatch counted so far.
  Time readyOf(const Op &op, const std::array<int32_t, 3> &count) const {
    const auto s = static_cast<size_t>(op.stage);
    if (op.letter == Letter::F)
      return op.stage == 0 ? 0 : forwardEnd[s - 1][size_t(count[0])] + down[s - 1];
    if (op.letter == Letter::W)
      return backwardEnd[s][size_t(count[2])];
    const auto j = static_cast<size_t>(count[1]);
    if (s + 1 == problem.stages.size())
      return forwardEnd[s][j];
    return std::max(forwardEnd[s][j], backwardEnd[s + 1][j] + up[s + 1]);
  }

  bool fill(size_t rank) {
    Word &word = words[rank];
    std::vector<std::array<int32_t, 3>> count(problem.stages.size());
    const auto kind = [](Letter letter) { return letter == Letter::F ? 0u : letter == Letter::W ? 2u : 1u; };
    Level live = 0;
    Time now = 0;
    bool moved = false;
    for (size_t at = 0; at < word.size(); ++at) {
      if (starts[rank][at] > now) {
        if (const size_t from = candidate(rank, at, now, live, count); from != at) {
          const Op op = word[from];
          const Time ready = std::max(now, readyOf(op, count[size_t(op.stage)]));
          const auto first = static_cast<std::ptrdiff_t>(at), last = static_cast<std::ptrdiff_t>(from);
          std::rotate(word.begin() + first, word.begin() + last, word.begin() + last + 1);
          std::rotate(starts[rank].begin() + first, starts[rank].begin() + last, starts[rank].begin() + last + 1);
          starts[rank][at] = ready;
          moved = true;
        }
      }
      const Op &op = word[at];
      live += change(op);
      now = starts[rank][at] + lengthOf(op);
      ++count[size_t(op.stage)][kind(op.letter)];
    }
    return moved;
  }

  /// The letters of the rank whose input is there in time to run whole before `at` starts.
  void findPossible(size_t rank, size_t at, Time now, const std::vector<std::array<int32_t, 3>> &count) {
    possible.clear();
    for (const int32_t s : stagesByRank[rank]) {
      const std::array<int32_t, 3> &own = count[size_t(s)];
      const auto offer = [&](Letter letter, bool mayRun) {
        const Op op{s, letter};
        // A letter of no length takes time here, so that it cannot get behind itself.
        if (mayRun && op != words[rank][at] &&
            std::max(now, readyOf(op, own)) + std::max<Time>(lengthOf(op), 1) <= starts[rank][at])
          possible.push_back(op);
      };
      offer(Letter::F, own[0] < problem.microbatches);
      offer(fused ? Letter::BW : Letter::B, own[1] < own[0]);
      offer(Letter::W, !fused && own[2] < own[1]);
    }
  }

  /// The letter that may run in the gap before `at`, the first in the word that memory allows; `at` if none.
  size_t candidate(size_t rank, size_t at, Time now, Level live, const std::vector<std::array<int32_t, 3>> &count) {
    findPossible(rank, at, now, count);
    const Word &word = words[rank];
    const Level capacity = capacities.empty() ? std::numeric_limits<Level>::max() : Level(capacities[rank]);
    Level level = live, highest = live; // most that is live from the gap up to the letter looked at
    for (size_t from = at; from < word.size() && from < at + window && !possible.empty(); ++from) {
      const Op &op = word[from];
      if (const auto found = std::find(possible.begin(), possible.end(), op); found != possible.end()) {
        if (highest + std::max<Level>(change(op), 0) <= capacity)
          return from;
        possible.erase(found);
      }
      level += change(op);
      highest = std::max(highest, level);
    }
    return at;
  }
};

} // namespace

Words deferWeights(const Problem &problem, const Capacities &capacities, const Words &words) {
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
