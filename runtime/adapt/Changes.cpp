#include "runtime/adapt/Changes.h"

#include <algorithm>
#include <cstdlib>

namespace pipec::adapt {

Conditions conditionsOf(const Estimator &estimates) {
  Conditions made;
  for (const auto &[ends, each] : estimates.links())
    made.links[ends] = {each.latency, each.bandwidth};
  for (const auto &[rank, each] : estimates.ranks())
    made.percent[rank] = each.percent;
  return made;
}

bool differ(const Conditions &one, const Conditions &other) {
  const auto far = [](int64_t a, int64_t b) { return std::abs(a - b) > std::max(std::abs(a), std::abs(b)) / 20; };
  if (one.links.size() != other.links.size() || one.percent.size() != other.percent.size())
    return true;
  for (const auto &[ends, link] : one.links) {
    const auto found = other.links.find(ends);
    if (found == other.links.end() || far(link.latency, found->second.latency) ||
        far(link.bandwidth, found->second.bandwidth))
      return true;
  }
  return std::any_of(one.percent.begin(), one.percent.end(), [&](const auto &each) {
    const auto found = other.percent.find(each.first);
    return found == other.percent.end() || far(each.second, found->second);
  });
}

bool Rounds::due(Time now, const Conditions &measured) const {
  return !underWay && !measured.empty() && (now >= next || (now >= soonest && differ(measured, planned)));
}

void Rounds::begin(Time now, Conditions measured) {
  underWay = true;
  planned = std::move(measured);
  next = now + every;
}

void Rounds::end(Time now, Time busy) {
  constexpr Time kRest = 2'000'000'000'000;
  underWay = false;
  soonest = now + std::max(kRest, 4 * busy);
}

} // namespace pipec::adapt
