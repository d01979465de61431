// A move changes the word of one rank: it joins a forward and a backward nearby into a pair, parts one, or takes a
// letter or a pair some places along. The whole new word is checked, since a pair may bring its W along from anywhere.
#include "compiler/schedule/improve/Annealer.h"
#include "compiler/schedule/overlap/Pairing.h"

#include <algorithm>
#include <array>

namespace pipec::schedule {

namespace {

using Level = __int128; // sizes within the limits times as many microbatches may pass 2^63
constexpr size_t kFarthest = 12;

struct Place {
  size_t rank = 0, at = 0; // of a pair, its F
};

class PairAnnealer {
public:
  PairAnnealer(const Problem &problem, const Capacities &capacities, Words &words, const Annealing &annealing)
      : problem(problem), capacities(capacities), words(words), annealing(annealing),
        timer(problem, words, annealing.objective), random(annealing.seed) {
    for (const Stage &stage : problem.stages)
      unit = std::max(unit, (stage.forward + stage.backward) / 3);
  }

  int64_t run() {
    Word changed;
    size_t rank = 0;
    return annealed(
        words, timer, random, annealing, unit, [&] { findTurns(); },
        [&] {
          const Place place = pick();
          rank = place.rank;
          changed = change(words[rank], place.at);
          if (changed.empty() || changed == words[rank] || !isRight(rank, changed))
            return false;
          words[rank].swap(changed);
          return true;
        },
        [&] { words[rank].swap(changed); });
  }

private:
  const Problem &problem;
  const Capacities &capacities;
  Words &words;
  const Annealing &annealing;
  Timer timer;
  Random random;
  std::vector<Place> turns; // of a longest path: what waits for its rank alone
  Time unit = 1;            // about a pass of the largest stage

  static size_t lengthAt(const Word &word, size_t at) { return word[at].overlapped ? 2 : 1; }
  /// Where the item (a letter, or a pair) before a place begins.
  static size_t previous(const Word &word, size_t at) { return at >= 2 && word[at - 2].overlapped ? at - 2 : at - 1; }

  /// Follows a longest path of a step back from its end. Only another order at one of the path's turns makes it
  /// shorter.
  void findTurns() {
    turns.clear();
    const std::vector<std::vector<Time>> &starts = timer.starts(words);
    const auto end = [&](const Place &place) {
      const Word &word = words[place.rank];
      const Op &op = word[place.at];
      return starts[place.rank][place.at] + (op.overlapped ? pairCost(problem, op, word[place.at + 1])
                                                           : costOf(problem.stages[size_t(op.stage)], op.letter));
    };
    std::vector<std::array<std::vector<Place>, 2>> places(problem.stages.size()); // of F and of backwards, as they come
    Place place;
    Time latest = -1;
    for (size_t rank = 0; rank < words.size(); ++rank) {
      const Word &word = words[rank];
      for (size_t at = 0; at < word.size(); at += lengthAt(word, at)) {
        for (size_t i = at; i != at + lengthAt(word, at); ++i)
          if (word[i].letter != Letter::W)
            places[size_t(word[i].stage)][counterOf(word[i].letter)].push_back({rank, at});
        if (end({rank, at}) > latest) {
          latest = end({rank, at});
          place = {rank, at};
        }
      }
    }
    while (place.at > 0) {
      const Word &word = words[place.rank];
      const Time start = starts[place.rank][place.at];
      if (const Place before{place.rank, previous(word, place.at)}; end(before) == start) {
        turns.push_back(place);
        place = before;
        continue;
      }
      const Place here = place;
      for (size_t i = here.at; i != here.at + lengthAt(word, here.at); ++i)
        if (const Op &op = word[i]; op.letter != Letter::W) {
          const size_t kind = counterOf(op.letter);
          const int32_t source = kind == 0 ? problem.before(op.stage) : problem.after(op.stage);
          if (source < 0)
            continue;
          const auto &own = places[size_t(op.stage)][kind];
          const auto nth = std::lower_bound(own.begin(), own.end(), here.at,
                                            [](const Place &each, size_t at) { return each.at < at; });
          const Place producer = places[size_t(source)][kind][size_t(nth - own.begin())];
          if (end(producer) + problem.handOver(source, op.stage) == start)
            place = producer;
        }
      if (place.rank == here.rank && place.at == here.at)
        break;
    }
    if (turns.empty())
      turns.push_back(place);
  }

  Place pick() {
    Place place;
    if (random.below(4) == 0) {
      place.rank = random.below(words.size());
      place.at = random.below(words[place.rank].size());
      if (place.at > 0 && words[place.rank][place.at - 1].overlapped)
        --place.at;
    } else {
      place = turns[random.below(turns.size())];
      if (place.at > 0 && random.below(2) == 0) // what it waits for
        place.at = previous(words[place.rank], place.at);
    }
    return place;
  }

  /// The word after a random move of what begins at `at`; empty where that move does not exist.
  Word change(const Word &word, size_t at) {
    if (random.below(2) == 0) {
      if (word[at].overlapped)
        return random.below(2) == 0 ? parted(word, at) : Word();
      if (word[at].letter != Letter::W)
        return joined(word, at);
    }
    return moved(word, at);
  }

  Word parted(const Word &word, size_t at) {
    Word result = word;
    result[at].overlapped = false;
    if (random.below(2) == 0)
      std::swap(result[at], result[at + 1]);
    if (problem.backward == BackwardMode::Split) {
      const auto backward = std::find_if(result.begin() + ptrdiff_t(at), result.end(),
                                         [](const Op &op) { return op.letter == Letter::BW; });
      backward->letter = Letter::B;
      result.insert(backward + 1, {backward->stage, Letter::W});
    }
    return result;
  }

  /// Joins a letter with the nearest one of the other kind before or behind it, in the place of either.
  Word joined(const Word &word, size_t at) {
    const bool later = random.below(2) == 0;
    const bool isForward = word[at].letter == Letter::F;
    size_t other = at;
    for (size_t steps = 0; other == at; ++steps) {
      const size_t next = later ? at + steps + 1 : at - steps - 1; // below 0: past the end
      if (steps == kFarthest || next >= word.size())
        return {};
      const bool inPair = word[next].overlapped || (next > 0 && word[next - 1].overlapped);
      if (!inPair && word[next].letter != Letter::W && (word[next].letter == Letter::F) != isForward)
        other = next;
    }
    const size_t forward = isForward ? at : other, backward = isForward ? other : at;
    if (!mayOverlap(problem, word[forward].stage, word[backward].stage))
      return {};
    size_t weight = word.size();
    if (word[backward].letter == Letter::B)
      for (weight = backward; word[weight].letter != Letter::W || word[weight].stage != word[backward].stage;)
        ++weight;
    const size_t place = random.below(2) == 0 ? forward : backward;
    Word result;
    result.reserve(word.size());
    for (size_t i = 0; i < word.size(); ++i) {
      if (i == place) {
        result.push_back({word[forward].stage, Letter::F, true});
        result.push_back({word[backward].stage, Letter::BW});
      }
      if (i != forward && i != backward && i != weight)
        result.push_back(word[i]);
    }
    return result;
  }

  Word moved(const Word &word, size_t at) {
    const bool later = random.below(2) == 0;
    size_t distance = 1;
    while (distance < kFarthest && random.below(3) == 0)
      ++distance;
    const size_t length = lengthAt(word, at);
    size_t to = at; // of the item that it goes before
    for (; distance > 0; --distance) {
      if (later ? to + lengthAt(word, to) >= word.size() : to == 0)
        return {};
      to = later ? to + lengthAt(word, to) : previous(word, to);
    }
    Word result = word;
    const auto begin = result.begin();
    const auto first = begin + ptrdiff_t(at), end = begin + ptrdiff_t(at + length);
    if (later)
      std::rotate(first, end, begin + ptrdiff_t(to + lengthAt(word, to)));
    else
      std::rotate(begin + ptrdiff_t(to), first, end);
    return result;
  }

  /// Whether a word is right as far as its rank alone can see: every backward behind its F, every W behind its B,
  /// within the capacity.
  bool isRight(size_t rank, const Word &word) const {
    std::vector<std::array<int32_t, 3>> done(problem.stages.size());
    Level live = 0;
    const Op *with = nullptr; // what runs together with the letter
    for (const Op &op : word) {
      auto &[forwards, backwards, halves] = done[size_t(op.stage)];
      if (op.letter == Letter::F)
        ++forwards;
      else if (op.letter == Letter::W)
        --halves;
      else if (problem.backwardOf(backwards++) >= forwards - (with && with->stage == op.stage))
        return false;
      halves += op.letter == Letter::B;
      live += changeOf(problem.stages[size_t(op.stage)], op.letter);
      if (halves < 0 || (!capacities.empty() && op.letter == Letter::F && live > capacities[rank]))
        return false;
      with = op.overlapped ? &op : nullptr;
    }
    return true;
  }
};

} // namespace

int64_t annealPairs(const Problem &problem, const Capacities &capacities, Words &words, const Annealing &annealing) {
  return PairAnnealer(problem, capacities, words, annealing).run();
}

} // namespace pipec::schedule
