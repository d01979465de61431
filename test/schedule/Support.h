// What the tests of compiler/schedule share: problems with equal stages, random problems, and random orders of them.
#pragma once

#include "compiler/schedule/catalogue/Catalogue.h"
#include "compiler/schedule/model/Block.h"
#include "compiler/schedule/model/Capacity.h"
#include "compiler/schedule/model/Problem.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <random>

namespace pipec::schedule::test {

/// p equal stages, one a rank; split backward b and w, fused b + w; latency c; each F holds a + o bytes.
inline Problem uniform(int32_t p, int32_t m, Time f, Time b, Time w, Time c = 0,
                       BackwardMode mode = BackwardMode::Fused) {
  Problem problem;
  problem.ranks = p;
  problem.microbatches = m;
  problem.backward = mode;
  Stage stage;
  stage.forward = f;
  stage.backwardInput = b;
  stage.backwardWeight = w;
  stage.backward = b + w;
  stage.activation = 1;
  stage.context = 0;
  problem.stages.assign(p, stage);
  problem.rankOf.resize(p);
  std::iota(problem.rankOf.begin(), problem.rankOf.end(), 0);
  problem.link.latency = c;
  return problem;
}

inline Words wordsOf(const char *name, const Problem &problem) { return repeat(problem, find(name)->block(problem)); }

using Random = std::mt19937_64;

inline int64_t pick(Random &random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
}

/// Unequal in everything: stages anywhere, at least one a rank; costs, sizes, latencies, bandwidths at random.
inline Problem randomProblem(Random &random, int32_t mostRanks, int32_t mostStages, int32_t mostMicrobatches) {
  Problem problem;
  problem.ranks = static_cast<int32_t>(pick(random, 1, mostRanks));
  const auto stages = static_cast<int32_t>(pick(random, problem.ranks, std::max(problem.ranks, mostStages)));
  problem.microbatches = static_cast<int32_t>(pick(random, 1, mostMicrobatches));
  problem.backward = pick(random, 0, 1) ? BackwardMode::Fused : BackwardMode::Split;
  const int64_t scale = pick(random, 0, 2) == 0 ? 3 : 20; // small costs make ties
  for (int32_t s = 0; s < stages; ++s) {
    Stage stage;
    stage.forward = pick(random, 0, scale);
    stage.backwardInput = pick(random, 0, scale);
    stage.backwardWeight = pick(random, 0, scale);
    stage.backward = pick(random, 0, 2 * scale);
    if (problem.backward == BackwardMode::Split)
      stage.backward = stage.backwardInput + stage.backwardWeight;
    stage.optimizer = pick(random, 0, 1) * pick(random, 0, scale);
    stage.boundary = pick(random, 0, 5);
    stage.activation = pick(random, 0, 6);
    stage.context = pick(random, 0, 4);
    if (s % 2 == 1)
      stage.setGradientBack((3 * stage.boundary + s) % 6);
    problem.stages.push_back(stage);
    problem.rankOf.push_back(s < problem.ranks ? s : static_cast<int32_t>(pick(random, 0, problem.ranks - 1)));
  }
  std::shuffle(problem.rankOf.begin(), problem.rankOf.end(), random);
  problem.link = {pick(random, 0, 1) * pick(random, 0, scale), pick(random, 0, 1) * 1'000'000'000'000};
  for (int64_t n = pick(random, 0, 3); n > 0; --n) {
    const auto from = static_cast<int32_t>(pick(random, 0, problem.ranks - 1));
    const auto to = static_cast<int32_t>(pick(random, 0, problem.ranks - 1));
    if (from != to)
      problem.links[{from, to}] = {pick(random, 0, 2 * scale), pick(random, 0, 2) * 500'000'000'000};
  }
  for (int32_t r = 0; r < problem.ranks; ++r) {
    problem.staticBytes.push_back(pick(random, 0, 9));
    problem.workspace.push_back(pick(random, 0, 3));
  }
  return problem;
}

/// Chunks in a loop or there and back, without transfers' bytes, under a limit between the least that does, less one,
/// and so much more.
template <typename Engine> Problem chunkedProblem(Engine &random, int32_t mostMicrobatches, Bytes mostSpare) {
  const auto draw = [&](int64_t least, int64_t most) { return least + int64_t(random() % uint64_t(most - least + 1)); };
  Problem problem;
  problem.ranks = int32_t(draw(1, 6));
  problem.microbatches = int32_t(draw(1, mostMicrobatches));
  problem.backward = draw(0, 3) == 0 ? BackwardMode::Fused : BackwardMode::Split;
  const auto count = int32_t(problem.ranks * draw(1, 3));
  problem.rankOf = placed(problem.ranks, count, draw(0, 1) == 0);
  for (int32_t s = 0; s < count; ++s) {
    Stage stage;
    stage.forward = draw(0, 40), stage.backwardInput = draw(0, 40), stage.backwardWeight = draw(0, 40);
    stage.backward = stage.backwardInput + stage.backwardWeight;
    stage.activation = draw(0, 4), stage.context = draw(0, 4);
    problem.stages.push_back(stage);
  }
  problem.link.latency = draw(0, 10);
  problem.memoryLimit = std::max<Bytes>(leastLimit(problem) + draw(-1, mostSpare), 1);
  return problem;
}

/// Gives every stage a time for its forward together with a backward, and lets some forwards that have a whole backward
/// behind them run overlapped with it, where the ranks still do not wait for each other in a cycle.
inline void overlapSome(Random &random, Problem &problem, Words &words) {
  std::vector<Time> longest(size_t(problem.ranks), 0); // backward of a rank
  for (size_t s = 0; s != problem.stages.size(); ++s) {
    Time &most = longest[size_t(problem.rankOf[s])];
    most = std::max(most, problem.stages[s].backward);
  }
  for (size_t s = 0; s != problem.stages.size(); ++s) {
    Stage &stage = problem.stages[s];
    const Time other = longest[size_t(problem.rankOf[s])];
    stage.overlapped = std::max(stage.forward, other) + pick(random, 0, std::min(stage.forward, other));
  }
  for (Word &word : words)
    for (size_t i = 0; i + 1 < word.size(); ++i) {
      if (word[i].letter != Letter::F || word[i + 1].letter != Letter::BW || pick(random, 0, 3) == 0)
        continue;
      word[i].overlapped = true;
      word[i].overlapped = verify(problem, words).empty();
    }
}

/// Some stages run their forward again: they keep less, and take longer.
inline void recomputeSome(Random &random, Problem &problem) {
  for (Stage &stage : problem.stages) {
    if (pick(random, 0, 2) == 0)
      continue;
    const Bytes input = pick(random, 0, stage.activation + stage.context);
    recompute(stage, input, pick(random, 0, 2) * stage.forward / 2);
  }
}

/// The words with their R, each right before its backward.
inline Words withRecompute(const Problem &problem, const Words &words) {
  Words all(words.size());
  for (size_t r = 0; r != words.size(); ++r)
    for (size_t i = 0; i != words[r].size(); ++i) {
      if (const int32_t stage = recomputedBefore(problem, words[r], i); stage >= 0)
        all[r].push_back({stage, Letter::R});
      all[r].push_back(words[r][i]);
    }
  return all;
}

/// Moves R up, each by any number of letters, but not before its forward nor before another R of its stage.
inline void hoistSome(Random &random, Words &words) {
  for (Word &word : words) {
    for (size_t i = 0; i != word.size(); ++i) {
      if (word[i].letter != Letter::R)
        continue;
      // By how many more forwards than R its stage has had before each letter.
      const int32_t stage = word[i].stage;
      std::vector<int32_t> ready(i + 1, 0);
      for (size_t k = 0; k != i; ++k)
        ready[k + 1] = ready[k] + int32_t(word[k] == Op{stage, Letter::F, word[k].overlapped}) -
                       int32_t(word[k] == Op{stage, Letter::R});
      size_t to = i;
      for (int64_t left = pick(random, 0, 2) * pick(random, 0, 6); left > 0 && to > 0; --left) {
        if (word[to - 1] == Op{stage, Letter::R} || ready[to - 1] == 0)
          break;
        --to;
      }
      if (to > 0 && word[to - 1].overlapped)
        continue;
      std::rotate(word.begin() + ptrdiff_t(to), word.begin() + ptrdiff_t(i), word.begin() + ptrdiff_t(i) + 1);
    }
  }
}

/// A random order that can run: letters are drawn, weighted by kind, from those whose producers have run, and stand in
/// their ranks' words as drawn.
inline Words randomWords(Random &random, const Problem &problem) {
  const auto stages = static_cast<int32_t>(problem.stages.size());
  const bool fused = problem.backward == BackwardMode::Fused;
  const int32_t m = problem.microbatches;
  const int64_t weight[] = {pick(random, 1, 20), pick(random, 1, 20), pick(random, 1, 20)};
  std::vector<std::array<int32_t, 3>> done(stages, {0, 0, 0});
  Words words(problem.ranks);
  while (true) {
    std::vector<std::pair<int32_t, int>> ready;
    std::vector<int64_t> weights;
    const auto offer = [&](bool isReady, int32_t s, int kind) {
      if (isReady && done[s][kind] < m) {
        ready.push_back({s, kind});
        weights.push_back(weight[kind]);
      }
    };
    for (int32_t s = 0; s < stages; ++s) {
      offer(s == 0 || done[s - 1][0] > done[s][0], s, 0);
      offer(done[s][0] > done[s][1] && (s + 1 == stages || done[s + 1][1] > done[s][1]), s, 1);
      offer(!fused && done[s][1] > done[s][2], s, 2);
    }
    if (ready.empty())
      return words;
    const auto [s, kind] = ready[std::discrete_distribution<size_t>(weights.begin(), weights.end())(random)];
    ++done[s][kind];
    words[problem.rankOf[s]].push_back({s, kind == 1 && fused ? Letter::BW : static_cast<Letter>(kind)});
  }
}

} // namespace pipec::schedule::test
