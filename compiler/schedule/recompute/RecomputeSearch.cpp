#include "compiler/schedule/recompute/RecomputeSearch.h"

#include <algorithm>

namespace pipec::schedule {

RecomputeSearch::RecomputeSearch(MayAgain may, std::vector<Stages> first, JudgeStages judge, int64_t most, bool isFixed)
    : may(std::move(may)), first(std::move(first)), judgeOf(std::move(judge)), most(most), isFixed(isFixed),
      left(most) {}

bool RecomputeSearch::looksAtAll() const {
  constexpr size_t kBits = 62;
  return may.size() < kBits && int64_t(1) << may.size() <= std::min(kAll, most);
}

std::optional<TrialCost> RecomputeSearch::judge(const Stages &chosen) {
  const auto [at, isNew] = known.try_emplace(chosen);
  if (isNew) {
    --left;
    at->second = judgeOf(chosen);
    if (at->second)
      best.emplace(*at->second, chosen);
  }
  return at->second;
}

void RecomputeSearch::run() {
  if (looksAtAll()) {
    eachChoice(may, [&](const Stages &chosen) { judge(chosen); });
    return;
  }
  const std::optional<TrialCost> none = judge({});
  for (const Stages &each : first)
    judge(each);
  if (isFixed && none && none->excess == 0)
    return; // every R only takes time
  Stages order;
  for (const auto &[stage, again] : may)
    order.push_back(stage);
  if (isFixed) {
    fewestThatFit(order);
    std::reverse(order.begin(), order.end());
    fewestThatFit(order);
  } else {
    eachBeginning(order);
  }
  leaveOut();
  exchange();
}

/// By bisection: more stages hold less, on the whole.
void RecomputeSearch::fewestThatFit(const Stages &order) {
  for (size_t low = 0, high = order.size(); low + 1 < high && left > 0;) {
    const size_t middle = low + (high - low) / 2;
    Stages chosen(order.begin(), order.begin() + ptrdiff_t(middle));
    std::sort(chosen.begin(), chosen.end());
    const std::optional<TrialCost> cost = judge(chosen);
    (cost && cost->excess == 0 ? high : low) = middle;
  }
}

void RecomputeSearch::eachBeginning(const Stages &order) {
  const size_t step = order.size() / size_t(std::max<int64_t>(most / 2, 1)) + 1;
  for (size_t count = 1; count < order.size() && left > 0; count += step)
    judge({order.begin(), order.begin() + ptrdiff_t(count)});
}

void RecomputeSearch::leaveOut() {
  if (best.empty())
    return;
  auto [cost, chosen] = *best.begin();
  Stages order = chosen;
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return std::pair(-may.at(a).recompute, a) < std::pair(-may.at(b).recompute, b);
  });
  for (const int32_t stage : order) {
    if (left <= 0)
      return;
    Stages fewer = chosen;
    std::erase(fewer, stage);
    if (const std::optional<TrialCost> its = judge(fewer); its && *its <= cost) {
      cost = *its;
      chosen = std::move(fewer);
    }
  }
}

void RecomputeSearch::exchange() {
  for (bool better = true; better && left > 0 && !best.empty();) {
    better = false;
    const auto [cost, chosen] = *best.begin();
    for (const int32_t out : chosen)
      for (const auto &[in, again] : may) {
        if (left <= 0 || std::binary_search(chosen.begin(), chosen.end(), in))
          continue;
        Stages other = chosen;
        std::erase(other, out);
        other.insert(std::lower_bound(other.begin(), other.end(), in), in);
        if (const std::optional<TrialCost> its = judge(other); its && *its < cost)
          better = true;
      }
  }
}

} // namespace pipec::schedule
