#include "compiler/schedule/overlap/Pairing.h"

#include "compiler/schedule/evaluate/Evaluate.h"

#include <algorithm>
#include <array>
#include <limits>

namespace pipec::schedule {

namespace {

using Wide = __int128;

Time backwardOf(const Problem &problem, const Stage &stage) {
  return problem.backwardTime(stage) + problem.weightTime(stage);
}

/// One rank's word, with pairs of neighbours.
class Pairer {
public:
  Pairer(const Problem &problem, Wide capacity, const Word &word, bool backwardFirst)
      : problem(problem), capacity(capacity), word(word), backwardFirst(backwardFirst), gone(word.size(), false),
        done(problem.stages.size()) {}

  Word run() {
    for (size_t i = 0; i < word.size(); ++i) {
      if (gone[i])
        continue;
      if (word[i].overlapped) {
        take(word[i]);
        take(word[++i]);
        continue;
      }
      const bool isForward = word[i].letter == Letter::F;
      const size_t other = word[i].letter == Letter::W || isForward == backwardFirst ? word.size() : neighbour(i);
      if (other == word.size() || !pair(isForward ? i : other, isForward ? other : i))
        take(word[i]);
    }
    return std::move(made);
  }

private:
  const Problem &problem;
  const Wide capacity;
  const Word &word;
  const bool backwardFirst;
  std::vector<bool> gone;
  std::vector<std::array<int32_t, 2>> done; // F and B of each stage
  Wide live = 0;
  Word made;

  void take(const Op &op) {
    if (op.letter != Letter::W)
      ++done[size_t(op.stage)][counterOf(op.letter)];
    live += changeOf(problem.stages[size_t(op.stage)], op.letter);
    made.push_back(op);
  }

  /// The next letter other than a W, if it is of the other kind and in no pair; else none.
  size_t neighbour(size_t i) const {
    size_t next = i + 1;
    while (next < word.size() && (gone[next] || word[next].letter == Letter::W))
      ++next;
    const bool fits = next < word.size() && !word[next].overlapped && !word[next - 1].overlapped &&
                      (word[next].letter == Letter::F) == backwardFirst;
    return fits ? next : word.size();
  }

  bool pair(size_t forward, size_t backward) {
    const int32_t s = word[forward].stage, t = word[backward].stage;
    if (!mayOverlap(problem, s, t) || problem.backwardOf(done[size_t(t)][1]) >= done[size_t(t)][0] ||
        live + changeOf(problem.stages[size_t(s)], Letter::F) > capacity)
      return false;
    gone[forward] = gone[backward] = true;
    for (size_t i = backward; word[backward].letter == Letter::B; ++i)
      if (!gone[i] && word[i].letter == Letter::W && word[i].stage == t) { // of a W for each B there is one
        gone[i] = true;
        break;
      }
    take({s, Letter::F, true});
    take({t, Letter::BW});
    return true;
  }
};

/// When the inputs of each pair are there, in a step in which all ranks begin at 0.
class Arrivals {
public:
  Arrivals(const Problem &problem, const Words &words, const std::vector<std::vector<Time>> &starts)
      : problem(problem), ends(problem.stages.size()) {
    for (size_t r = 0; r < words.size(); ++r)
      for (size_t i = 0; i < words[r].size(); ++i) {
        const Op &op = words[r][i];
        const bool second = i > 0 && words[r][i - 1].overlapped;
        const Time cost = op.overlapped ? pairCost(problem, op, words[r][i + 1])
                          : second      ? pairCost(problem, words[r][i - 1], op)
                                        : costOf(problem.stages[size_t(op.stage)], op.letter);
        if (op.letter != Letter::W)
          ends[size_t(op.stage)][counterOf(op.letter)].push_back(starts[r][i] + cost);
      }
  }

  /// Of a stage's n-th F (B).
  Time of(int32_t stage, size_t kind, size_t n) const {
    const int32_t source = kind == 0 ? problem.before(stage) : problem.after(stage);
    return source < 0 ? 0 : ends[size_t(source)][kind][n] + problem.handOver(source, stage);
  }

private:
  const Problem &problem;
  std::vector<std::array<std::vector<Time>, 2>> ends;
};

/// Parts pairs for which a rank waits longer than the pair saves. Returns whether there were any.
bool partLate(const Problem &problem, Words &words) {
  const Evaluation evaluation = evaluate(problem, words, {.withSpan = false, .withStarts = true});
  if (!evaluation.complete)
    return false;
  const Arrivals arrivals(problem, words, evaluation.starts);
  bool any = false;
  for (size_t r = 0; r < words.size(); ++r) {
    Word made;
    std::vector<std::array<size_t, 2>> done(problem.stages.size());
    Time free = 0;
    for (size_t i = 0; i < words[r].size(); ++i) {
      const Op &op = words[r][i];
      const size_t s = size_t(op.stage);
      if (op.letter != Letter::W)
        ++done[s][counterOf(op.letter)];
      if (!op.overlapped) {
        made.push_back(op);
        free = evaluation.starts[r][i] + costOf(problem.stages[s], op.letter);
        continue;
      }
      const Op &behind = words[r][++i];
      const size_t t = size_t(behind.stage);
      const Time forward = arrivals.of(op.stage, 0, done[s][0] - 1);
      const Time backward = arrivals.of(behind.stage, 1, done[t][1]++);
      const Time cost = pairCost(problem, op, behind);
      const Time saved = problem.stages[s].forward + backwardOf(problem, problem.stages[t]) - cost;
      const Time one = std::max(std::min(forward, backward), free), other = std::max(forward, backward);
      free = evaluation.starts[r][i] + cost;
      if (other - one <= saved) {
        made.push_back(op);
        made.push_back(behind);
        continue;
      }
      any = true;
      if (forward <= backward)
        made.push_back({op.stage, Letter::F});
      if (problem.backward == BackwardMode::Fused) {
        made.push_back(behind);
      } else {
        made.push_back({behind.stage, Letter::B});
        made.push_back({behind.stage, Letter::W});
      }
      if (forward > backward)
        made.push_back({op.stage, Letter::F});
    }
    words[r] = std::move(made);
  }
  return any;
}

} // namespace

bool mayOverlap(const Problem &problem, int32_t forward, int32_t backward) {
  const Stage &stage = problem.stages[size_t(forward)];
  const Time other = ownCost(problem.stages[size_t(backward)], Letter::BW);
  return stage.overlapped && *stage.overlapped >= std::max(stage.forward, other) &&
         *stage.overlapped - stage.forward <= other;
}

bool hasPairs(const Problem &problem) {
  return std::any_of(problem.stages.begin(), problem.stages.end(),
                     [](const Stage &stage) { return stage.overlapped.has_value(); });
}

Problem apart(const Problem &problem) {
  Problem result = problem;
  for (Stage &stage : result.stages)
    stage.overlapped.reset();
  return result;
}

Problem asIfPaired(const Problem &problem) {
  Problem result = apart(problem);
  for (const std::vector<int32_t> &mine : problem.stagesByRank()) {
    Wide together = 0, whole = 0;
    for (const int32_t s : mine) {
      const Stage &stage = problem.stages[size_t(s)];
      const bool pairs = std::any_of(mine.begin(), mine.end(), [&](int32_t t) { return mayOverlap(problem, s, t); });
      whole += stage.forward + stage.backward;
      together += pairs ? *stage.overlapped : stage.forward + stage.backward;
    }
    if (whole == 0)
      continue;
    for (const int32_t s : mine) {
      Stage &stage = result.stages[size_t(s)];
      for (Time *time : {&stage.forward, &stage.backwardInput, &stage.backwardWeight, &stage.backward})
        *time = static_cast<Time>(*time * together / whole);
    }
  }
  // Of the hops over a link, the mean.
  std::map<std::pair<int32_t, int32_t>, std::pair<Wide, int32_t>> longer;
  for (int32_t s = 0; s < int32_t(problem.stages.size()); ++s)
    if (const int32_t next = problem.after(s); next >= 0 && problem.rankOf[size_t(s)] != problem.rankOf[size_t(next)]) {
      const auto add = [&](int32_t from, int32_t to, Time time) {
        auto &[sum, count] = longer[{problem.rankOf[size_t(from)], problem.rankOf[size_t(to)]}];
        sum += time;
        ++count;
      };
      add(s, next, result.stages[size_t(s)].backward);
      add(next, s, result.stages[size_t(s)].forward);
    }
  for (const auto &[ranks, sum] : longer) {
    Link link = problem.linkBetween(ranks.first, ranks.second);
    link.latency += static_cast<Time>(sum.first / sum.second);
    result.links[ranks] = link;
  }
  return result;
}

Words halved(const Problem &problem, const Words &words) {
  if (problem.backward == BackwardMode::Fused)
    return words;
  Words result;
  for (const Word &word : words) {
    Word &made = result.emplace_back();
    for (size_t i = 0; i < word.size(); ++i)
      if (word[i].letter == Letter::BW && (i == 0 || !word[i - 1].overlapped)) {
        made.push_back({word[i].stage, Letter::B});
        made.push_back({word[i].stage, Letter::W});
      } else {
        made.push_back(word[i]);
      }
  }
  return result;
}

Words paired(const Problem &problem, const Capacities &capacities, const Words &words, bool backwardFirst) {
  Words result = halved(problem, words);
  for (size_t r = 0; r < result.size(); ++r)
    result[r] = Pairer(problem, capacities.empty() ? std::numeric_limits<Wide>::max() : Wide(capacities[r]), result[r],
                       backwardFirst)
                    .run();
  constexpr int kRounds = 4;
  for (int i = 0; i < kRounds && partLate(problem, result); ++i)
    ;
  return result;
}

} // namespace pipec::schedule
