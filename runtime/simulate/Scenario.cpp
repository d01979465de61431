// Passages through bandwidths that change, in whole numbers: a byte is counted as 10^12 parts, of which a link of r
// bytes a second passes r in each picosecond.
#include "runtime/simulate/Scenario.h"

#include <algorithm>

namespace pipec::simulate {

using plan::Bytes;
using plan::Time;

using Wide = unsigned __int128;

static size_t stretchAt(const Scenario::Link &link, Time time) {
  auto after = std::upper_bound(link.begin(), link.end(), time,
                                [](Time value, const Scenario::Stretch &stretch) { return value < stretch.at; });
  return after == link.begin() ? 0 : size_t(after - link.begin()) - 1;
}

Time wireEnd(const Scenario::Link &link, Bytes bytes, Time start) {
  // At most 2^60 × 10^12 < 2^100 parts; what a stretch passes is below 2^60 × 2^63.
  Wide parts = Wide(bytes) * 1'000'000'000'000u;
  Time at = std::max<Time>(start, 0);
  for (size_t s = stretchAt(link, start); at < kNever; at = link[++s].at) {
    if (parts == 0 || link[s].bandwidth == 0)
      return at;
    auto rate = Wide(link[s].bandwidth);
    bool last = s + 1 == link.size();
    Wide passes = last ? 0 : rate * Wide(link[s + 1].at - at);
    if (last || passes >= parts) {
      Wide takes = (2 * parts + rate) / (2 * rate);
      return Time(std::min<Wide>(Wide(at) + takes, Wide(kNever)));
    }
    parts -= passes;
  }
  return kNever;
}

Scenario::Passage Scenario::transfer(int32_t from, int32_t to, const plan::Operation &operation, Time start) const {
  Passage passage;
  auto named = links.find({from, to});
  const Link *link = named != links.end() ? &named->second : others ? &*others : nullptr;
  if (link) {
    passage.end = wireEnd(*link, operation.bytes, start);
    passage.arrival = passage.end + (*link)[stretchAt(*link, passage.end)].latency;
  } else {
    passage.end = start + operation.cost;
    passage.arrival = passage.end + operation.latency;
  }
  passage.lost = !cuts.empty() && passage.arrival > cutAt(from, to);
  return passage;
}

Time Scenario::computeEnd(int32_t rank, Time start, Time cost) const {
  auto found = slow.find(rank);
  int64_t percent = 100;
  if (found != slow.end())
    for (const Slow &each : found->second)
      if (each.at <= start && start < each.until) {
        percent = each.percent;
        break;
      }
  return Time(std::min<Wide>(Wide(std::max<Time>(start, 0)) + (Wide(cost) * Wide(percent) + 50) / 100, Wide(kNever)));
}

Time Scenario::cutAt(int32_t a, int32_t b) const {
  auto found = cuts.find(std::minmax(a, b));
  return found == cuts.end() ? kNever : found->second;
}

} // namespace pipec::simulate
