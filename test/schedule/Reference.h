// The evaluator's definitions, computed another way: the constraint graph as a list of edges, longest paths by relaxing
// all of them until nothing changes, the span by Karp on the whole matrix, peaks by counting along each word. Words
// name R here, wherever between its forward and its backward it stands.
#pragma once

#include "compiler/schedule/evaluate/Evaluate.h"
#include "compiler/schedule/model/Problem.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

namespace pipec::schedule::test {

inline constexpr Time kNone = INT64_MIN;

inline Time ceilDivide(Time value, Time by) { return value >= 0 ? (value + by - 1) / by : -(-value / by); }

/// The largest cycle mean of a matrix, rounded up, by Karp's theorem.
inline Time karp(const std::vector<std::vector<Time>> &matrix) {
  const size_t n = matrix.size();
  std::vector<std::vector<Time>> walks(n + 1, std::vector<Time>(n, kNone));
  walks[0][0] = 0;
  for (size_t k = 1; k <= n; ++k)
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j)
        if (walks[k - 1][i] != kNone && matrix[i][j] != kNone)
          walks[k][j] = std::max(walks[k][j], walks[k - 1][i] + matrix[i][j]);
  Time best = 0;
  for (size_t j = 0; j < n; ++j) {
    Time least = INT64_MAX; // of the ceilings: rounding up keeps the order of the means
    for (size_t k = 0; k < n; ++k)
      if (walks[n][j] != kNone && walks[k][j] != kNone)
        least = std::min(least, ceilDivide(walks[n][j] - walks[k][j], static_cast<Time>(n - k)));
    if (least != INT64_MAX)
      best = std::max(best, least);
  }
  return best;
}

class Reference {
public:
  Reference(const Problem &problem, const Words &words) : problem(problem), words(words) {
    const bool fused = problem.backward == BackwardMode::Fused;
    const Letter backward = fused ? Letter::BW : Letter::B;
    const auto stages = static_cast<int32_t>(problem.stages.size());
    std::map<std::tuple<int32_t, Letter, int32_t>, size_t> nodes;
    for (int32_t r = 0; r < problem.ranks; ++r) {
      first.push_back(costs.size());
      std::map<std::pair<int32_t, Letter>, int32_t> counts;
      for (const Op &op : words[r]) {
        const auto [stage, letter] = std::pair(op.stage, op.letter);
        const Stage &costed = problem.stages[stage];
        nodes[{stage, letter, counts[{stage, letter}]++}] = costs.size();
        costs.push_back(letter == Letter::F   ? costed.forward
                        : letter == Letter::B ? costed.backwardInput - costed.recompute
                        : letter == Letter::W ? costed.backwardWeight
                        : letter == Letter::R ? costed.recompute
                                              : costed.backward - costed.recompute);
      }
      for (int32_t s = 0; s < stages; ++s)
        if (problem.rankOf[s] == r)
          costs.push_back(problem.stages[s].optimizer);
      for (size_t node = first[r]; node + 1 < costs.size(); ++node)
        edges.push_back({node, node + 1, costs[node]});
      // Neither of a pair starts before the other, and both last as long as the pair.
      for (size_t i = 0; i < words[r].size(); ++i)
        if (const size_t node = first[r] + i; words[r][i].overlapped) {
          costs[node] = costs[node + 1] = *problem.stages[words[r][i].stage].overlapped;
          edges[edges.size() - (costs.size() - 1 - node)].weight = 0;
          edges[edges.size() - (costs.size() - 1 - (node + 1))].weight = costs[node];
          together.push_back({node + 1, node, 0});
        }
      last.push_back(costs.size() - 1);
    }
    edges.insert(edges.end(), together.begin(), together.end());
    const auto link = [&](int32_t from, Letter fromLetter, int32_t to, Letter toLetter, int32_t j) {
      const size_t producer = nodes.at({from, fromLetter, j}), consumer = nodes.at({to, toLetter, j});
      edges.push_back({producer, consumer, costs[producer] + delay(from, to)});
    };
    for (int32_t s = 0; s < stages; ++s)
      for (int32_t j = 0; j < problem.microbatches; ++j) {
        if (s > 0)
          link(s - 1, Letter::F, s, Letter::F, j);
        if (s + 1 < stages)
          link(s + 1, backward, s, backward, j);
        if (problem.stages[s].input) {
          link(s, Letter::F, s, Letter::R, j);
          link(s, Letter::R, s, backward, j);
        } else {
          link(s, Letter::F, s, backward, j);
        }
        if (!fused)
          link(s, Letter::B, s, Letter::W, j);
      }
  }

  Time makespan() const {
    Time latest = 0;
    for (Time end : ends(std::vector<Time>(costs.size(), 0)))
      latest = std::max(latest, end);
    return latest;
  }

  /// From the definition: the whole matrix of longest paths.
  Time span() const {
    const auto n = static_cast<size_t>(problem.ranks);
    std::vector<std::vector<Time>> matrix;
    for (size_t i = 0; i < n; ++i) {
      std::vector<Time> starts(costs.size(), kNone);
      starts[first[i]] = 0;
      matrix.push_back(ends(starts));
    }
    return karp(matrix);
  }

  std::vector<Bytes> peaks() const {
    std::vector<Bytes> peaks;
    for (const Word &word : words) {
      Bytes live = 0, peak = 0;
      for (const Op &op : word) {
        const auto [stage, letter] = std::pair(op.stage, op.letter);
        const auto &[activation, context] = std::pair(problem.stages[stage].activation, problem.stages[stage].context);
        const std::optional<Bytes> &input = problem.stages[stage].input;
        live += letter == Letter::F   ? input.value_or(activation + context)
                : letter == Letter::B ? -activation
                : letter == Letter::W ? -context
                : letter == Letter::R ? activation + context
                                      : -activation - context;
        if (letter == Letter::R) // of what it makes the input is a part
          live -= *input;
        peak = std::max(peak, live);
      }
      peaks.push_back(peak);
    }
    return peaks;
  }

private:
  struct Edge {
    size_t from, to;
    Time weight;
  };

  const Problem &problem;
  const Words &words;
  std::vector<Time> costs;
  std::vector<Edge> edges, together;
  std::vector<size_t> first, last;

  Time delay(int32_t from, int32_t to) const {
    const int32_t source = problem.rankOf[from], target = problem.rankOf[to];
    if (source == target)
      return 0;
    const auto found = problem.links.find({source, target});
    const Link &link = found == problem.links.end() ? problem.link : found->second;
    const Stage &upper = problem.stages[std::min(from, to)];
    const Bytes bytes = from < to ? upper.boundary : upper.boundaryGradient.value_or(upper.boundary);
    const Time wire = link.bandwidth == 0 ? 0 : static_cast<Time>(double(bytes) * 1e12 / double(link.bandwidth) + 0.5);
    return wire + link.latency;
  }

  std::vector<Time> ends(std::vector<Time> starts) const {
    for (bool changed = true; changed;) {
      changed = false;
      for (const auto &[from, to, weight] : edges)
        if (starts[from] != kNone && starts[from] + weight > starts[to]) {
          starts[to] = starts[from] + weight;
          changed = true;
        }
    }
    std::vector<Time> result;
    for (size_t node : last)
      result.push_back(starts[node] == kNone ? kNone : starts[node] + costs[node]);
    return result;
  }
};

} // namespace pipec::schedule::test
