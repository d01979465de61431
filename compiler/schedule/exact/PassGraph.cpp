// Windows come from longest paths in the network of data and of the order of microbatches, and from the time that a
// rank needs for what must run before (after) a pass.
#include "compiler/schedule/exact/PassGraph.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace pipec::schedule {

namespace {

constexpr Time kNone = std::numeric_limits<Time>::min() / 4; // no path

} // namespace

Passes::Passes(const Problem &problem, Objective objective, Time target)
    : problem(problem), kinds(problem.backward == BackwardMode::Fused ? 2 : 3), rankLines(size_t(problem.ranks)) {
  for (int32_t line = 0; line < lines(); ++line) {
    lengths.push_back(costOf(problem.stages[size_t(line / kinds)], letterOf(line)));
    rankLines[size_t(rankOf(line))].push_back(line);
  }
  connect();
  // Steps alone take whole units; the mean of several, rounded up to a picosecond, need not.
  setUnit(objective == Objective::Span ? target : 0);
  setWindows(objective, target);
}

Letter Passes::letterOf(int32_t line) const {
  return line % kinds == 0 ? Letter::F : kinds == 2 ? Letter::BW : line % kinds == 1 ? Letter::B : Letter::W;
}

void Passes::connect() {
  const auto stages = int32_t(problem.stages.size());
  const int32_t m = microbatches(), origin = lines() * m, norm = origin + 1;
  const auto line = [&](int32_t s, int32_t kind) { return s * kinds + kind; };
  const auto connect = [&](int32_t from, int32_t to, Time length) { network.push_back({from, to, length}); };
  // All passes, such that every arc leads from an earlier one to a later one.
  const auto chain = [&](int32_t of, int32_t j) {
    if (j > 0)
      connect(pass(of, j - 1), pass(of, j), lengths[size_t(of)]);
  };
  for (int32_t s = 0; s < stages; ++s)
    for (int32_t j = 0; j < m; ++j) {
      chain(line(s, 0), j);
      if (s > 0)
        connect(pass(line(s - 1, 0), j), pass(line(s, 0), j),
                lengths[size_t(line(s - 1, 0))] + problem.handOver(s - 1, s));
      else if (j == 0)
        connect(origin, pass(line(0, 0), 0), 0);
    }
  for (int32_t s = stages; s-- > 0;)
    for (int32_t j = 0; j < m; ++j) {
      chain(line(s, 1), j);
      if (s + 1 < stages)
        connect(pass(line(s + 1, 1), j), pass(line(s, 1), j),
                lengths[size_t(line(s + 1, 1))] + problem.handOver(s + 1, s));
      else
        connect(pass(line(s, 0), j), pass(line(s, 1), j), lengths[size_t(line(s, 0))]);
    }
  for (int32_t s = 0; s < stages; ++s)
    for (int32_t j = 0; j < m && kinds == 3; ++j) {
      chain(line(s, 2), j);
      connect(pass(line(s, 1), j), pass(line(s, 2), j), lengths[size_t(line(s, 1))]);
    }
  if (problem.globalNorm)
    for (int32_t each = 0; each < lines(); ++each)
      connect(pass(each, m - 1), norm, lengths[size_t(each)]);
}

void Passes::setUnit(Time divides) {
  unit = divides;
  for (const Arc &arc : network)
    unit = std::gcd(unit, arc.length);
  for (const Time length : lengths)
    unit = std::gcd(unit, length);
  for (const Stage &stage : problem.stages)
    unit = std::gcd(unit, stage.optimizer);
  unit = std::max<Time>(std::gcd(unit, problem.globalNorm.value_or(0)), 1);
  for (Arc &arc : network)
    arc.length /= unit;
  for (Time &length : lengths)
    length /= unit;
}

std::vector<Time> Passes::distancesFrom(int32_t pass) const {
  std::vector<Time> distance(size_t(count()), kNone);
  distance[size_t(pass)] = 0;
  for (const Arc &arc : network)
    if (distance[size_t(arc.from)] != kNone)
      distance[size_t(arc.to)] = std::max(distance[size_t(arc.to)], distance[size_t(arc.from)] + arc.length);
  return distance;
}

void Passes::setWindows(Objective objective, Time target) {
  const int32_t m = microbatches(), origin = lines() * m, norm = origin + 1;
  const Time end = target / unit, reduce = problem.globalNorm.value_or(0) / unit;
  std::vector<Time> optimizer(size_t(ranks()), 0);
  for (size_t s = 0; s < problem.stages.size(); ++s)
    optimizer[size_t(problem.rankOf[s])] += problem.stages[s].optimizer / unit;
  anchors.assign(size_t(count()), origin);
  anchors[size_t(norm)] = norm;
  least.assign(size_t(count()), 0);
  most.assign(size_t(count()), end);
  std::vector<Arc> upper;
  for (int32_t r = 0; r < ranks(); ++r) {
    const int32_t anchor = objective == Objective::Span ? pass(linesOf(r).front(), 0) : origin;
    const std::vector<Time> from = distancesFrom(anchor);
    // From the start of a pass to the end of its rank, or of all.
    std::vector<Time> to(size_t(count()), kNone);
    for (int32_t line = 0; line < lines(); ++line)
      if (objective == Objective::Makespan || rankOf(line) == r)
        to[size_t(pass(line, m - 1))] = lengths[size_t(line)] + optimizer[size_t(rankOf(line))];
    if (problem.globalNorm)
      to[size_t(norm)] =
          reduce +
          (objective == Objective::Span ? optimizer[size_t(r)] : *std::max_element(optimizer.begin(), optimizer.end()));
    for (size_t i = network.size(); i-- > 0;) {
      const Arc &arc = network[i];
      if (to[size_t(arc.to)] != kNone)
        to[size_t(arc.from)] = std::max(to[size_t(arc.from)], to[size_t(arc.to)] + arc.length);
    }
    if (problem.globalNorm)
      upper.push_back({norm, anchor, to[size_t(norm)] - end});
    for (const int32_t line : linesOf(r))
      for (int32_t j = 0; j < m; ++j) {
        const auto at = size_t(pass(line, j));
        anchors[at] = anchor;
        least[at] = from[at];
        most[at] = end - to[at];
      }
    firsts.push_back(from[size_t(pass(linesOf(r).front(), 0))]);
    lasts.push_back(end - optimizer[size_t(r)] - (problem.globalNorm ? reduce : 0));
  }
  network.insert(network.end(), upper.begin(), upper.end());
  for (int32_t i = 0; i < lines() * m; ++i)
    possible &= least[size_t(i)] <= most[size_t(i)];
}

bool Passes::mustPrecede(int32_t x, int32_t y) const {
  const int32_t m = microbatches(), a = x / m, b = y / m, i = x % m, j = y % m;
  if (a == b)
    return i < j;
  const int32_t s = a / kinds, t = b / kinds, kind = a % kinds, other = b % kinds;
  if (i <= j && (kind < other ? (kind == 0 || s >= t) : kind == other && kind < 2 && (kind == 0 ? s < t : s > t)))
    return true; // by data
  return least[size_t(y)] + length(y) > most[size_t(x)];
}

Words Passes::words(const std::vector<int64_t> &starts) const {
  // Of what starts at one time, in the order of data.
  std::vector<int32_t> rankInData(size_t(count()), 0);
  int32_t place = 0;
  for (int32_t kind = 0; kind < kinds; ++kind)
    for (int32_t n = 0; n < int32_t(problem.stages.size()); ++n) {
      const int32_t s = kind == 1 ? int32_t(problem.stages.size()) - 1 - n : n;
      for (int32_t j = 0; j < microbatches(); ++j)
        rankInData[size_t(pass(s * kinds + kind, j))] = place++;
    }
  Words result;
  for (const std::vector<int32_t> &mine : rankLines) {
    std::vector<int32_t> passes;
    for (const int32_t line : mine)
      for (int32_t j = 0; j < microbatches(); ++j)
        passes.push_back(pass(line, j));
    std::sort(passes.begin(), passes.end(), [&](int32_t x, int32_t y) {
      return std::pair(starts[size_t(x)], rankInData[size_t(x)]) < std::pair(starts[size_t(y)], rankInData[size_t(y)]);
    });
    Word &word = result.emplace_back();
    for (const int32_t each : passes)
      word.push_back({each / microbatches() / kinds, letterOf(each / microbatches())});
  }
  return result;
}

} // namespace pipec::schedule
