#include "compiler/portions/Held.h"

#include "compiler/portions/Ranges.h"

#include <algorithm>

namespace pipec::portions {
namespace {

using Wide = __int128;
Bytes narrow(Wide bytes) { return Bytes(std::min<Wide>(bytes, INT64_MAX)); }

/// How many units of a split a shard has, for each kind in HeldUnits.
struct Units {
  int64_t of = 1, kept = 1, either = 1, owned = 1; // defaults for a layer's own sizes: one unit of one
  int64_t by(plan::HeldUnits units) const {
    return units == plan::HeldUnits::Kept ? kept : units == plan::HeldUnits::Either ? either : owned;
  }
};

bool isOfMicrobatch(const plan::FigureRow &row) { return row.held == plan::HeldUnits::Kept; }

void hold(Held &held, const Work &work, int64_t count, const Units &units) {
  for (const plan::FigureRow &row : plan::kFigureTable) {
    if (row.held == plan::HeldUnits::None)
      continue;
    const Figure to = isOfMicrobatch(row) ? row.figure : Figure::Static;
    held.set(to, narrow(Wide(held[to]) + Wide(count) * shareOf(work[row.figure], units.by(row.held), units.of)));
  }
}

} // namespace

std::vector<Held> heldOf(const Group &group, const Stage &stage, const StagePortions &portions) {
  std::vector<Held> all(group.factors.size());
  for (size_t run = 0; run != stage.runs.size(); ++run) {
    const LayerRun &layers = stage.runs[run];
    for (size_t shard = 0; shard != all.size(); ++shard) {
      hold(all[shard], layers.layer.own, layers.count, {});
      for (size_t at = 0; at != layers.layer.splits.size(); ++at) {
        const Split &split = layers.layer.splits[at];
        const Portion &portion = portions[run][at][shard];
        hold(all[shard], split, layers.count,
             {split.units, portion.kept, unitsOfEither(portion.owned, portion.worked), unitsOf(portion.owned)});
      }
    }
  }
  return all;
}

std::vector<Bytes> needsOf(const Group &group, const Portions &portions) {
  std::vector<Bytes> needs;
  for (int32_t shard = 0; shard != group.shards(); ++shard)
    needs.push_back(narrow(Wide(group.otherStatic(shard)) + group.workspace));
  for (size_t at = 0; at != group.stages.size(); ++at) {
    const Stage &stage = group.stages[at];
    const std::vector<Held> held = heldOf(group, stage, portions[at]);
    for (size_t shard = 0; shard != held.size(); ++shard) {
      const Held &own = held[shard];
      Wide need = Wide(needs[shard]) + own[Figure::Static];
      for (const plan::FigureRow &row : plan::kFigureTable)
        if (isOfMicrobatch(row))
          need += Wide(stage.inFlightOf(row.figure)) * own[row.figure];
      needs[shard] = narrow(need);
    }
  }
  return needs;
}

} // namespace pipec::portions
