// A move takes a letter some places along its rank's word. Letters of one stage and kind keep their order, so each
// letter keeps its microbatch. Whether a move is allowed, and what it does to memory, follows from the letters that it
// passes.
#include "compiler/schedule/improve/LocalSearch.h"

#include "compiler/schedule/evaluate/Evaluate.h"
#include "compiler/schedule/improve/Annealer.h"

#include <algorithm>
#include <array>

namespace pipec::schedule {

namespace {

using Level = __int128; // sizes within the limits times as many microbatches may pass 2^63

struct Move {
  size_t rank, from, to;
};

struct Place {
  size_t rank = 0, at = 0;
};

class Annealer {
public:
  Annealer(const Problem &problem, const Capacities &capacities, Words &words, const Annealing &annealing)
      : problem(problem), capacities(capacities), words(words), annealing(annealing),
        timer(problem, words, annealing.objective), random(annealing.seed) {
    for (const Word &word : words) {
      std::vector<int32_t> &numbers = microbatches.emplace_back();
      std::vector<Level> &levels = live.emplace_back();
      std::vector<std::array<int32_t, kWordLetters>> count(problem.stages.size());
      Level level = 0;
      for (const Op &op : word) {
        numbers.push_back(count[size_t(op.stage)][size_t(op.letter)]++);
        levels.push_back(level);
        level += change(op);
      }
    }
    for (const Stage &stage : problem.stages) {
      const Time all = stage.forward + problem.backwardTime(stage) + problem.weightTime(stage);
      unit = std::max(unit, all / 3);
    }
  }

  int64_t run() {
    Move move{};
    return annealed(
        words, timer, random, annealing, unit, [&] { findTurns(); },
        [&] {
          const std::optional<Move> picked = pick();
          if (picked)
            apply(move = *picked);
          return picked.has_value();
        },
        [&] { apply({move.rank, move.to, move.from}); });
  }

private:
  const Problem &problem;
  const Capacities &capacities;
  Words &words;
  const Annealing &annealing;
  Timer timer;
  Random random;
  std::vector<std::vector<int32_t>> microbatches; // of each letter
  std::vector<std::vector<Level>> live;           // before each letter
  std::vector<std::vector<Place>> places;         // of F and B, by stage and microbatch
  std::vector<Place> turns;                       // letters of a longest path that wait for their rank alone
  Time unit = 1;                                  // about a pass of the largest stage

  Level change(const Op &op) const { return changeOf(problem.stages[size_t(op.stage)], op.letter); }

  /// Whether `early` may come after `late`, which now follows it.
  bool mayPass(size_t rank, size_t early, size_t late) const {
    const Op &a = words[rank][early], &b = words[rank][late];
    return a.stage != b.stage || (a.letter != b.letter && microbatches[rank][early] != microbatches[rank][late]);
  }

  /// Follows a longest path of a step back from its end. Only another order at one of the path's turns makes it
  /// shorter.
  void findTurns() {
    turns.clear();
    const std::vector<std::vector<Time>> &starts = timer.starts(words);
    const auto end = [&](const Place &place) {
      const Op &op = words[place.rank][place.at];
      return starts[place.rank][place.at] + costOf(problem.stages[size_t(op.stage)], op.letter);
    };
    places.resize(2 * problem.stages.size());
    for (std::vector<Place> &each : places)
      each.resize(size_t(problem.microbatches));
    Place place;
    Time latest = -1;
    for (size_t rank = 0; rank < words.size(); ++rank) {
      for (size_t at = 0; at < words[rank].size(); ++at)
        if (const Op &op = words[rank][at]; op.letter != Letter::W)
          places[2 * size_t(op.stage) + (op.letter != Letter::F)][size_t(microbatches[rank][at])] = {rank, at};
      if (const Place last{rank, words[rank].size() - 1}; end(last) > latest) {
        latest = end(last);
        place = last;
      }
    }
    while (place.at > 0) {
      const Place previous{place.rank, place.at - 1};
      const Op &op = words[place.rank][place.at];
      const bool isForward = op.letter == Letter::F;
      const int32_t source = isForward ? problem.before(op.stage) : problem.after(op.stage);
      if (end(previous) == starts[place.rank][place.at]) {
        turns.push_back(place);
        place = previous;
      } else if (op.letter == Letter::W || source < 0) {
        break;
      } else {
        place = places[2 * size_t(source) + !isForward][size_t(microbatches[place.rank][place.at])];
      }
    }
    if (turns.empty())
      turns.push_back(place);
  }

  std::optional<Move> pick() {
    constexpr size_t kFarthest = 12;
    const bool later = random.below(2) == 0;
    Place place;
    if (random.below(4) == 0) {
      place.rank = random.below(words.size());
      place.at = random.below(words[place.rank].size());
    } else {
      place = turns[random.below(turns.size())];
      if (later && place.at > 0) // what it waits for
        --place.at;
    }
    const size_t rank = place.rank, length = words[rank].size(), from = place.at;
    size_t distance = 1;
    while (distance < kFarthest && random.below(3) == 0)
      ++distance;
    if (later ? from + distance >= length : from < distance)
      return std::nullopt;
    const Move move{rank, from, later ? from + distance : from - distance};
    for (size_t at = std::min(from, move.to); at <= std::max(from, move.to); ++at)
      if (at != from && !(later ? mayPass(rank, from, at) : mayPass(rank, at, from)))
        return std::nullopt;
    return fits(move) ? std::optional(move) : std::nullopt;
  }

  /// The bytes held between the two places shift by what the letter changes; the letter itself is judged where it goes.
  bool fits(const Move &move) const {
    if (capacities.empty())
      return true;
    const Level moved = change(words[move.rank][move.from]);
    const Level capacity = capacities[move.rank];
    const bool later = move.to > move.from;
    const Level shift = later ? -moved : moved;
    if (shift <= 0 && moved <= 0)
      return true;
    for (size_t at = std::min(move.from, move.to); at <= std::max(move.from, move.to); ++at)
      if (at != move.from && live[move.rank][at] + shift + std::max<Level>(change(words[move.rank][at]), 0) > capacity)
        return false;
    const Level before =
        later ? live[move.rank][move.to] + change(words[move.rank][move.to]) - moved : live[move.rank][move.to];
    return before + std::max<Level>(moved, 0) <= capacity;
  }

  void apply(const Move &move) {
    const auto turn = [&](auto &list) {
      const auto at = list.begin();
      const auto from = static_cast<std::ptrdiff_t>(move.from), to = static_cast<std::ptrdiff_t>(move.to);
      if (from < to)
        std::rotate(at + from, at + from + 1, at + to + 1);
      else
        std::rotate(at + to, at + from, at + from + 1);
    };
    turn(words[move.rank]);
    turn(microbatches[move.rank]);
    const size_t first = std::min(move.from, move.to), last = std::max(move.from, move.to);
    std::vector<Level> &levels = live[move.rank];
    for (size_t at = first; at < last; ++at)
      levels[at + 1] = levels[at] + change(words[move.rank][at]);
  }
};

} // namespace

int64_t anneal(const Problem &problem, const Capacities &capacities, Words &words, const Annealing &annealing) {
  return Annealer(problem, capacities, words, annealing).run();
}

} // namespace pipec::schedule
