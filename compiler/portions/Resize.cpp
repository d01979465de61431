// ZERO-resizing: equal portions, with units left out by slow shards.
#include "compiler/portions/Fixed.h"
#include "compiler/portions/Most.h"
#include "compiler/portions/Policies.h"
#include "compiler/portions/Ranges.h"
#include "compiler/portions/Timing.h"

#include <algorithm>
#include <numeric>

namespace pipec::portions {
namespace {

/// The fraction of a shard's units that is left out: out / of.
struct Gamma {
  Wide out = 0, of = 1;
  /// ceil(units x (1 - gamma)). At least one unit stays, if there is any.
  int64_t kept(int64_t units) const {
    if (out <= 0)
      return units;
    return units == 0 ? 0 : std::max<int64_t>(1, int64_t((units * std::max<Wide>(of - out, 0) + of - 1) / of));
  }
};

/// By shard: how much longer than the reference the shard computes, as a fraction of what it computes in splits.
std::vector<Gamma> balancing(const Group &group, Reference reference) {
  const std::vector<Time> own = ownOfStep(group, evenPortions(group));
  Group without = group;
  for (Stage &stage : without.stages)
    for (LayerRun &run : stage.runs)
      run.layer.splits.clear();
  const std::vector<Time> always = ownOfStep(without, evenPortions(without));
  const Wide shards = Wide(own.size()), sum = std::accumulate(own.begin(), own.end(), Wide(0));
  const Wide least = *std::min_element(own.begin(), own.end());
  std::vector<Gamma> gammas;
  for (size_t shard = 0; shard != own.size(); ++shard) {
    const Wide inSplits = Wide(own[shard]) - always[shard];
    const Gamma gamma = reference == Reference::Least ? Gamma{own[shard] - least, inSplits}
                                                      : Gamma{shards * own[shard] - sum, shards * inSplits};
    gammas.push_back(inSplits > 0 ? gamma : Gamma());
  }
  return gammas;
}

std::vector<Gamma> gammasOf(const Group &group, const Balance &balance) {
  if (!balance.gamma)
    return balancing(group, balance.reference);
  std::vector<Gamma> gammas;
  for (const Factor factor : group.factors)
    gammas.push_back(factor > kNoSlower ? Gamma{*balance.gamma, 1'000'000} : Gamma());
  return gammas;
}

} // namespace

Chosen chooseResize(const Group &group, const Balance &balance) {
  const std::vector<Gamma> gammas = gammasOf(group, balance);
  Chosen chosen;
  chosen.portions = eachSplit(group, [&](size_t, size_t, size_t, const Split &split) {
    const std::vector<int64_t> worked = equalCounts(split.units, group.shards());
    std::vector<int64_t> kept;
    for (size_t shard = 0; shard != worked.size(); ++shard)
      kept.push_back(gammas[shard].kept(worked[shard]));
    return ownedPortions(worked, kept);
  });
  return chosen;
}

Chosen chooseEven(const Group &group) {
  Chosen chosen;
  chosen.portions = evenPortions(group);
  return chosen;
}

} // namespace pipec::portions
