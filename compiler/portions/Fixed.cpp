#include "compiler/portions/Fixed.h"

#include "compiler/portions/Ranges.h"

#include <numeric>

namespace pipec::portions {

SplitPortions ownedPortions(const std::vector<int64_t> &owned, const std::vector<int64_t> &kept) {
  SplitPortions portions;
  const std::vector<Ranges> ranges = contiguous(owned);
  for (size_t shard = 0; shard != ranges.size(); ++shard)
    portions.push_back({ranges[shard], ranges[shard], kept[shard]});
  return portions;
}

SplitPortions movedPortions(const std::vector<int64_t> &worked) {
  const int64_t units = std::accumulate(worked.begin(), worked.end(), int64_t(0));
  const std::vector<int64_t> counts = equalCounts(units, int32_t(worked.size()));
  const std::vector<Ranges> owned = contiguous(counts), works = given(counts, worked);
  SplitPortions portions;
  for (size_t shard = 0; shard != worked.size(); ++shard)
    portions.push_back({owned[shard], works[shard], worked[shard]});
  return portions;
}

Portions eachSplit(const Group &group, const MakeSplit &make) {
  Portions all(group.stages.size());
  for (size_t stage = 0; stage != all.size(); ++stage) {
    const std::vector<LayerRun> &runs = group.stages[stage].runs;
    all[stage].resize(runs.size());
    for (size_t run = 0; run != runs.size(); ++run)
      for (size_t split = 0; split != runs[run].layer.splits.size(); ++split)
        all[stage][run].push_back(make(stage, run, split, runs[run].layer.splits[split]));
  }
  return all;
}

Portions evenPortions(const Group &group) {
  return eachSplit(group, [&](size_t, size_t, size_t, const Split &split) {
    const std::vector<int64_t> counts = equalCounts(split.units, group.shards());
    return ownedPortions(counts, counts);
  });
}

} // namespace pipec::portions
