// A plan of one process a rank, and what shards add to it.
#include "test/plan/MakeShards.h"

#include <algorithm>

namespace pipec::plan::test {
namespace {

bool hasSums(const Operation &o, const Sharded &how) {
  return isCompute(o.kind) ? o.kind != Kind::BackwardWeight : does(o.kind, kUpdate) && how.exchange;
}

/// Rounded half up.
Time stretched(Time time, int64_t factor) { return Time((__int128(time) * factor + Own::kWhole / 2) / Own::kWhole); }

Own ownOf(const Program &program, int64_t factor, const Sharded &how) {
  Own own;
  own.factor = factor;
  own.staticBytes = program.staticBytes;
  own.workspace = program.workspace;
  for (const Operation &o : program.operations) {
    OwnCost &cost = own.operations.emplace_back();
    cost.activation = o.activation;
    cost.context = o.context;
    if (isCommunication(o.kind))
      continue;
    const Time all = stretched(o.cost, factor);
    cost.between = hasSums(o, how) ? all / 4 : 0;
    cost.after = cost.between;
    cost.before = all - cost.between - cost.after;
  }
  return own;
}

} // namespace

std::vector<Portion> equalPortions(int32_t stage, int32_t layers, const std::string &split, int64_t units,
                                   int32_t shards) {
  std::vector<Portion> portions;
  int64_t first = 0;
  for (int32_t shard = 0; shard != shards; ++shard) {
    Portion &own = portions.emplace_back();
    own.stage = stage;
    own.shard = shard;
    own.layers = layers;
    own.split = split;
    own.units = units;
    own.kept = units / shards + (shard < units % shards ? 1 : 0);
    if (own.kept != 0)
      own.owned = own.worked = {{first, own.kept}};
    first += own.kept;
  }
  return portions;
}

Plan makeShards(const Sharded &how) {
  Plan plan = makePlan(how.make);
  Variant &variant = plan.variants.front();
  variant.name = "shards";
  variant.balance = R"({"name": "even"})";
  variant.own = how.own;
  variant.portions = how.portions;
  plan.processes.clear();
  const auto shards = size_t(how.shards);
  for (Program &program : variant.programs) {
    Group &group = plan.groups.emplace_back();
    for (int32_t shard = 0; shard != how.shards; ++shard) {
      const size_t place = size_t(program.rank) * shards + size_t(shard);
      group.members.push_back(int32_t(place));
      plan.processes.push_back({program.rank, 0, shard});
      if (how.own.empty())
        variant.own.push_back(ownOf(program, place < how.factors.size() ? how.factors[place] : Own::kWhole, how));
    }
    for (size_t i = 0; i != program.operations.size(); ++i) {
      Operation &o = program.operations[i];
      if (isCommunication(o.kind))
        continue;
      o.cost = 0;
      if (!hasSums(o, how))
        continue;
      o.group = program.rank;
      for (size_t shard = 0; shard != shards; ++shard)
        o.cost = std::max(o.cost, variant.own[size_t(program.rank) * shards + shard].operations[i].between);
      o.cost += 2 * how.sum;
    }
  }
  if (how.portions.empty())
    for (int32_t stage = 0; stage != variant.stages; ++stage)
      for (Portion &each : equalPortions(stage, 1, "heads", how.units, how.shards))
        variant.portions.push_back(std::move(each));
  return plan;
}

} // namespace pipec::plan::test
