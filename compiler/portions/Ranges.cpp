#include "compiler/portions/Ranges.h"

#include <algorithm>
#include <numeric>

namespace pipec::portions {

int64_t unitsOf(const Ranges &ranges) {
  int64_t units = 0;
  for (const Range &each : ranges)
    units += each.count;
  return units;
}

int64_t unitsOfBoth(const Ranges &one, const Ranges &other) {
  int64_t units = 0;
  for (size_t i = 0, k = 0; i != one.size() && k != other.size();) {
    units += std::max<int64_t>(0, std::min(one[i].end(), other[k].end()) - std::max(one[i].first, other[k].first));
    ++(one[i].end() < other[k].end() ? i : k);
  }
  return units;
}

std::vector<int64_t> equalCounts(int64_t units, int32_t shards) {
  std::vector<int64_t> counts;
  for (int32_t shard = 0; shard != shards; ++shard)
    counts.push_back(units / shards + (shard < units % shards ? 1 : 0));
  return counts;
}

std::vector<Ranges> contiguous(const std::vector<int64_t> &counts) {
  std::vector<Ranges> ranges;
  int64_t first = 0;
  for (const int64_t count : counts) {
    ranges.push_back(count == 0 ? Ranges() : Ranges{{first, count}});
    first += count;
  }
  return ranges;
}

namespace {

/// Appends a range of units; a range that touches the last one is joined to it.
void append(Ranges &to, Range range) {
  if (!to.empty() && to.back().end() == range.first)
    to.back().count += range.count;
  else
    to.push_back(range);
}

/// Sorts ranges and joins those that touch.
Ranges inOrder(Ranges ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const Range &one, const Range &other) { return one.first < other.first; });
  Ranges joined;
  for (const Range &each : ranges)
    append(joined, each);
  return joined;
}

} // namespace

std::vector<Ranges> given(const std::vector<int64_t> &owned, const std::vector<int64_t> &worked) {
  std::vector<Ranges> all(owned.size());
  Ranges moving; // ascending, as the owners are
  int64_t first = 0;
  for (size_t shard = 0; shard != owned.size(); ++shard) {
    const int64_t stays = std::min(owned[shard], worked[shard]);
    if (stays > 0)
      all[shard].push_back({first, stays});
    if (stays < owned[shard])
      moving.push_back({first + stays, owned[shard] - stays});
    first += owned[shard];
  }
  size_t next = 0;
  for (size_t shard = 0; shard != owned.size(); ++shard) {
    for (int64_t wants = worked[shard] - owned[shard]; wants > 0 && next != moving.size();) {
      Range &from = moving[next];
      const int64_t taken = std::min(wants, from.count);
      all[shard].push_back({from.first, taken});
      from = {from.first + taken, from.count - taken};
      wants -= taken;
      next += from.count == 0 ? 1 : 0;
    }
    all[shard] = inOrder(std::move(all[shard]));
  }
  return all;
}

std::vector<int64_t> inProportion(int64_t units, const std::vector<int64_t> &weights) {
  const int64_t all = std::accumulate(weights.begin(), weights.end(), int64_t(0));
  std::vector<int64_t> counts, left;
  std::vector<size_t> order(weights.size());
  int64_t missing = units;
  for (const int64_t weight : weights) {
    const __int128 share = __int128(units) * weight;
    counts.push_back(int64_t(share / all));
    left.push_back(int64_t(share % all));
    missing -= counts.back();
  }
  std::iota(order.begin(), order.end(), size_t(0));
  std::sort(order.begin(), order.end(),
            [&](size_t one, size_t other) { return left[one] != left[other] ? left[one] > left[other] : one < other; });
  for (size_t i = 0; i != order.size() && missing > 0; ++i, --missing)
    ++counts[order[i]];
  return counts;
}

} // namespace pipec::portions
