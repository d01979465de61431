#include "compiler/schedule/cut/CutSearch.h"

#include <algorithm>

namespace pipec::schedule {

namespace {

/// All cuts of so many layers into so many stages.
void eachCut(int64_t layers, size_t stages, Cut &cut, const std::function<void(const Cut &)> &see) {
  if (cut.size() + 1 == stages) {
    cut.push_back(layers);
    see(cut);
    cut.pop_back();
    return;
  }
  for (int64_t own = 1; own + int64_t(stages - cut.size()) - 1 <= layers; ++own) {
    cut.push_back(own);
    eachCut(layers - own, stages, cut, see);
    cut.pop_back();
  }
}

/// The n-th neighbour of a cut: a layer moves from one stage to another, first between stages side by side, and all
/// between them shift by one. None behind the last one; an empty cut where the stage has but one layer.
std::optional<Cut> neighbour(const Cut &cut, size_t n) {
  const size_t stages = cut.size(), pairs = stages * (stages - 1);
  if (n >= pairs)
    return std::nullopt;
  // By distance, then direction, then place.
  size_t distance = 1;
  while (n >= 2 * (stages - distance))
    n -= 2 * (stages - distance++);
  const size_t first = n / 2, second = first + distance;
  const size_t from = n % 2 == 0 ? first : second, to = n % 2 == 0 ? second : first;
  if (cut[from] == 1)
    return Cut();
  Cut other = cut;
  --other[from];
  ++other[to];
  return other;
}

} // namespace

CutSearch::CutSearch(CutWork given, std::vector<Cut> first, JudgeCut judge, int64_t most)
    : work(std::move(given)), judgeOf(std::move(judge)), left(most), balanced(balance(work)), starts(std::move(first)) {
  const auto layers = int64_t(work.layers.size());
  starts.insert(starts.end(), {sharedCut(work), balanced.cut});
  for (Cut &each : slowestFastest(work))
    starts.push_back(std::move(each));
  if (countCuts(layers, int64_t(work.stages()), kAll) > kAll)
    return;
  Cut cut;
  eachCut(layers, work.stages(), cut, [&](const Cut &each) { all.emplace_back(busiest(work, each), each); });
  std::sort(all.begin(), all.end());
}

void CutSearch::judge(const Cut &cut) {
  if (!known.insert(cut).second)
    return;
  --left;
  if (const std::optional<TrialCost> cost = judgeOf(cut)) {
    best.emplace(*cost, cut);
    open.emplace(std::pair(*cost, cut), 0);
  }
}

void CutSearch::run(Time horizon) {
  for (const Cut &each : starts)
    judge(each);
  if (!looksAtAll())
    return improve();
  for (; next != all.size(); ++next) {
    const bool fits = !best.empty() && best.begin()->first.excess == 0;
    if (fits && all[next].first > std::max(horizon, best.begin()->first.time))
      return;
    judge(all[next].second);
  }
}

void CutSearch::improve() {
  while (left > 0) {
    if (open.empty())
      return;
    const auto at = open.begin(); // the best
    const std::optional<Cut> other = neighbour(at->first.second, at->second++);
    if (!other) {
      open.erase(at);
      continue;
    }
    if (other->empty() || known.contains(*other))
      continue;
    const TrialCost &least = best.begin()->first;
    if (least.excess != 0 || busiest(work, *other) <= least.time)
      judge(*other);
  }
}

plan::LeastTime CutSearch::bound(const std::function<std::optional<plan::LeastTime>(const Cut &)> &bound) const {
  const auto busiest = plan::LeastTime::proven(Time(balanced.least)); // its layers take that of a rank in every step
  if (!looksAtAll())
    return busiest;
  std::optional<plan::LeastTime> least;
  for (const auto &[needs, cut] : all) {
    if (least && needs >= least->picoseconds())
      break;
    if (const std::optional<plan::LeastTime> its = bound(cut); its && (!least || *its < *least))
      least = its;
  }
  return least.value_or(busiest);
}

} // namespace pipec::schedule
