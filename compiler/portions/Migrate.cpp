// SEMI-migration: owners stay as they are. Units that would keep a slow shard busy for too long are worked by other
// shards.
#include "compiler/portions/Fixed.h"
#include "compiler/portions/Held.h"
#include "compiler/portions/Policies.h"
#include "compiler/portions/Ranges.h"
#include "compiler/portions/Timing.h"

#include <algorithm>

namespace pipec::portions {
namespace {

Portions portionsOf(const Group &group, const Counts &counts) {
  size_t next = 0;
  return eachSplit(group, [&](size_t, size_t, size_t, const Split &) { return movedPortions(counts[next++]); });
}

/// Chooses each stage by itself. A stage that moves nothing has no exchanges, so each stage is also tried without any
/// move.
Chosen stageByStage(const Group &group, Solver &solver) {
  Chosen chosen;
  const Portions even = evenPortions(group);
  Wide lower = 0;
  for (size_t at = 0; at != group.stages.size(); ++at) {
    Group alone = group;
    alone.stages = {group.stages[at]};
    const Least least = solver.inAnyMemory(movedProgram(alone));
    const Time stays = stepOf(group, group.stages[at], even[at]);
    Portions moved = portionsOf(alone, least.counts);
    const bool pays = stepOf(alone, moved) < stays;
    chosen.portions.push_back(pays ? std::move(moved[0]) : even[at]);
    lower += std::min<Wide>(stays, least.lower + latenciesOf(group));
  }
  chosen.lower = asTime(lower);
  return chosen;
}

bool fits(const Group &group, const Portions &portions) {
  const std::vector<Bytes> needs = needsOf(group, portions);
  return group.memoryLimit == 0 || *std::max_element(needs.begin(), needs.end()) <= group.memoryLimit;
}

/// Undoes the moves of each stage where that does not cost time.
void putBack(const Group &group, Portions &portions) {
  const Portions even = evenPortions(group);
  for (size_t at = 0; at != portions.size(); ++at) {
    Portions other = portions;
    other[at] = even[at];
    if (stepOf(group, other) <= stepOf(group, portions) && fits(group, other))
      portions = std::move(other);
  }
}

} // namespace

Chosen chooseMigrate(const Group &group, Solver &solver) {
  Chosen chosen = stageByStage(group, solver);
  if (fits(group, chosen.portions))
    return chosen;
  const Program program = movedProgram(group);
  Least least = solver.inMemory(group, program, solver.inAnyMemory(program));
  const Portions even = evenPortions(group);
  chosen.portions = portionsOf(group, least.counts);
  chosen.shortage = least.shortage;
  if (least.shortage)
    return chosen;
  putBack(group, chosen.portions);
  // Either no stage moves anything, or, if that does not fit, at least one stage moves a unit and pays the latencies.
  Wide lower = least.lower + latenciesOf(group);
  if (fits(group, even)) {
    lower = std::min<Wide>(lower, stepOf(group, even));
    if (stepOf(group, even) <= stepOf(group, chosen.portions))
      chosen.portions = even;
  }
  chosen.lower = std::max(chosen.lower, asTime(lower));
  return chosen;
}

Chosen chooseSemi(const Group &group, int64_t part, Solver &solver) {
  const Chosen migrated = chooseMigrate(group, solver);
  Chosen chosen = migrated;
  chosen.portions = eachSplit(group, [&](size_t stage, size_t run, size_t at, const Split &) {
    const SplitPortions &before = migrated.portions[stage][run][at];
    std::vector<int64_t> worked, kept, gains;
    int64_t moved = 0;
    for (const Portion &each : before) {
      const int64_t given = std::max<int64_t>(0, unitsOf(each.owned) - unitsOf(each.worked));
      const int64_t stays = int64_t((__int128(given) * part + 500'000) / 1'000'000);
      worked.push_back(std::min(unitsOf(each.owned), unitsOf(each.worked)) + stays);
      kept.push_back(worked.back() - stays);
      gains.push_back(unitsOf(each.worked) - unitsOf(each.owned) + given);
      moved += given - stays;
    }
    // Shards that took over units get fewer now, in proportion.
    if (moved > 0) {
      const std::vector<int64_t> taken = inProportion(moved, gains);
      for (size_t shard = 0; shard != worked.size(); ++shard) {
        worked[shard] += taken[shard];
        kept[shard] += taken[shard];
      }
    }
    SplitPortions portions = movedPortions(worked);
    for (size_t shard = 0; shard != portions.size(); ++shard)
      portions[shard].kept = kept[shard];
    return portions;
  });
  return chosen;
}

} // namespace pipec::portions
