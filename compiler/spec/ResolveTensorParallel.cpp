// `tensor_parallel`: shards of each rank, and how they share the units of its layers' splits.
#include "compiler/spec/Resolve.h"

#include "compiler/spec/Keys.h"
#include "runtime/plan/Limits.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace pipec::spec {
namespace {

/// The balances that have a parameter.
struct OfBalance {
  const char *parameter;
  BalanceKind kind;
};
constexpr OfBalance kParameters[] = {
    {"most", BalanceKind::Auto},     {"gamma", BalanceKind::Resize},    {"reference", BalanceKind::Resize},
    {"impute", BalanceKind::Resize}, {"priority", BalanceKind::Resize}, {"part", BalanceKind::Semi},
};

void readBalance(const Lookup &lookup, Balance &balance) {
  const std::string path = "tensor_parallel.balance";
  const Value *value = lookup.get(path);
  if (!value)
    return;
  if (!value->node->isMap()) {
    lookup.single(path, balance.kind);
    return;
  }
  if (!lookup.get(path + ".name"))
    return;
  lookup.single(path + ".name", balance.kind);
  for (const auto &[parameter, kind] : kParameters)
    if (const std::string own = fmt::format("{}.{}", path, parameter); lookup.given(own) && kind != balance.kind.value)
      lookup.errors.add(lookup.markOf(own),
                        fmt::format("{}: {} has no such parameter; {} has", own, value->node->find("name")->text,
                                    findKey(path)->choices[size_t(kind)]));
  const auto number = [&](const char *name, int64_t &into) {
    if (const Value *found = lookup.get(fmt::format("{}.{}", path, name)))
      into = found->numbers[0].fixed;
  };
  const auto choice = [&]<typename T>(const char *name, T &into) {
    if (const Value *found = lookup.get(fmt::format("{}.{}", path, name)))
      into = T(found->numbers[0].fixed);
  };
  number("most", balance.most);
  number("part", balance.part);
  if (const Value *gamma = lookup.get(path + ".gamma"); gamma && gamma->node->text != "auto")
    balance.gamma = gamma->numbers[0].fixed;
  choice("reference", balance.reference);
  choice("impute", balance.impute);
  choice("priority", balance.priority);
}

void readSlow(const Lookup &lookup, const Spec &spec, TensorParallel &shards) {
  std::map<std::pair<int32_t, int32_t>, Mark> first;
  for (size_t i = 0; lookup.given(fmt::format("tensor_parallel.slow[{}]", i)); ++i) {
    const std::string path = fmt::format("tensor_parallel.slow[{}]", i);
    const Value *rank = lookup.get(path + ".rank"), *shard = lookup.get(path + ".shard"),
                *factor = lookup.get(path + ".factor");
    if (!rank || !shard || !factor)
      continue;
    const SlowShard slow{int32_t(rank->numbers[0].fixed), int32_t(shard->numbers[0].fixed), factor->numbers[0].fixed,
                         lookup.markOf(path)};
    const auto inRange = [&](const Value *value, const char *name, int32_t count) {
      if (count > 0 && value->numbers[0].fixed >= count)
        lookup.errors.add(value->mark, fmt::format("{}.{}: expected a {} from 0 to {}, found {}", path, name, name,
                                                   count - 1, value->numbers[0].fixed));
    };
    inRange(rank, "rank", spec.ranks.value);
    inRange(shard, "shard", shards.shards.value);
    if (const auto [at, isNew] = first.emplace(std::pair(slow.rank, slow.shard), slow.mark); !isNew)
      lookup.errors.add(slow.mark, fmt::format("{}: shard {} of rank {} is given twice", path, slow.shard, slow.rank),
                        at->second, "first given here");
    shards.slow.push_back(slow);
  }
}

/// What shards do not go with yet.
void refuse(const Lookup &lookup, const Spec &spec) {
  const TensorParallel &given = spec.tensorParallel;
  const int64_t shards = given.shards.value;
  const auto error = [&](Mark mark, std::string message) {
    lookup.errors.add(mark, std::move(message), given.shards.mark, "the shards are given here");
  };
  if (shards * spec.ranks.value > limits::kProcesses)
    lookup.errors.add(given.shards.mark,
                      fmt::format("tensor_parallel.shards: expected at most {} processes, found {} ranks x {} shards",
                                  limits::kProcesses, spec.ranks.value, shards));
  if (!spec.layers || std::all_of(spec.layers->entries.begin(), spec.layers->entries.end(),
                                  [](const Layer &each) { return each.splits.empty(); }))
    lookup.errors.add(given.shards.mark, "tensor_parallel.shards: expected layers with splits, which shards share, "
                                         "found none: give layers[].splits");
  if (spec.has(Figure::Overlapped))
    error(spec[Figure::Overlapped].mark, "costs.overlapped: overlapped pairs with shards are not supported yet");
  if (spec.placement && spec.placement->kind == PlacementKind::Bidirectional)
    error(spec.placement->mark, "pipeline.placement: bidirectional placement with shards is not supported yet");
  if (spec.dataParallel.degree.value > 1)
    error(spec.dataParallel.degree.mark, "data_parallel.degree: replicas with shards are not supported yet");
  if (spec.slices.value > 1)
    error(spec.slices.mark, "pipeline.slices: slices with shards are not supported yet");
  if (spec.weights.value == Weights::Fill)
    error(spec.weights.mark, "weights: fill with shards is not supported yet");
}

} // namespace

void resolveTensorParallel(const Lookup &lookup, Spec &spec) {
  TensorParallel &shards = spec.tensorParallel;
  shards.mark = lookup.markOf("tensor_parallel");
  lookup.single("tensor_parallel.shards", shards.shards);
  lookup.link("tensor_parallel.link", shards.link);
  if (const Value *sequence = lookup.get("tensor_parallel.sequence"))
    shards.sequence = sequence->numbers[0].fixed != 0;
  readSlow(lookup, spec, shards);
  shards.balance.kind.mark = shards.mark;
  readBalance(lookup, shards.balance);
  if (shards.shards.value > 1)
    refuse(lookup, spec);
  else if (!shards.slow.empty())
    lookup.errors.add(lookup.markOf("tensor_parallel.slow"),
                      "tensor_parallel.slow: expected two shards or more, of which some are slow, found 1");
}

} // namespace pipec::spec
