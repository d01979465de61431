#include "compiler/portions/Held.h"

#include "compiler/portions/Ranges.h"

#include <algorithm>

namespace pipec::portions {
namespace {

using Wide = __int128;
Bytes narrow(Wide bytes) { return Bytes(std::min<Wide>(bytes, INT64_MAX)); }

/// Own sizes are those of one unit of one.
void hold(Held &held, const Work &work, int64_t count, int64_t units, int64_t kept, int64_t either, int64_t owned) {
  const auto add = [&](Bytes &to, Bytes bytes, int64_t part) {
    to = narrow(Wide(to) + Wide(count) * shareOf(bytes, part, units));
  };
  add(held.activation, work.activation, kept);
  add(held.weightContext, work.weightContext, kept);
  add(held.backwardContext, work.backwardContext, kept);
  add(held.recomputeInput, work.recomputeInput, kept);
  add(held.staticBytes, work.weights, either);
  add(held.staticBytes, work.gradients, either);
  add(held.staticBytes, work.optimizerState, owned);
}

} // namespace

std::vector<Held> heldOf(const Group &group, const Stage &stage, const StagePortions &portions) {
  std::vector<Held> all(group.factors.size());
  for (size_t run = 0; run != stage.runs.size(); ++run) {
    const LayerRun &layers = stage.runs[run];
    for (size_t shard = 0; shard != all.size(); ++shard) {
      hold(all[shard], layers.layer.own, layers.count, 1, 1, 1, 1);
      for (size_t at = 0; at != layers.layer.splits.size(); ++at) {
        const Split &split = layers.layer.splits[at];
        const Portion &portion = portions[run][at][shard];
        hold(all[shard], split, layers.count, split.units, portion.kept, unitsOfEither(portion.owned, portion.worked),
             unitsOf(portion.owned));
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
      const Wide passes = Wide(stage.inFlight) * (Wide(own.activation) + own.weightContext + own.backwardContext) +
                          Wide(stage.inputsInFlight) * own.recomputeInput;
      needs[shard] = narrow(Wide(needs[shard]) + own.staticBytes + passes);
    }
  }
  return needs;
}

} // namespace pipec::portions
