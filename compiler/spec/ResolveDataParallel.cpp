// `data_parallel`: replicas, what their collectives take, and the policy by which they exchange gradients. Which
// policies there are and what each fixes, compiler/schedule/exchange knows.
#include "compiler/spec/Resolve.h"

#include "compiler/spec/Keys.h"
#include "runtime/plan/Limits.h"

#include <algorithm>
#include <fmt/format.h>

namespace pipec::spec {
namespace {

std::optional<CollectiveCost> readCost(const Lookup &lookup, const std::string &path) {
  if (!lookup.given(path))
    return std::nullopt;
  CollectiveCost cost;
  if (const Value *start = lookup.get(path + ".start"))
    cost.start = start->numbers[0].fixed;
  if (const Value *bandwidth = lookup.get(path + ".bandwidth"))
    cost.bandwidth = bandwidth->numbers[0].fixed;
  return cost;
}

void readCosts(const Lookup &lookup, DataParallel &replicas) {
  lookup.link("data_parallel.link", replicas.link);
  if (!lookup.given("data_parallel.costs"))
    return;
  if (lookup.given("data_parallel.link"))
    lookup.errors.add(lookup.markOf("data_parallel.link"),
                      "data_parallel.link: give either this, from which the times of collectives follow, or costs",
                      lookup.markOf("data_parallel.costs"), "costs are given here");
  replicas.allReduce = readCost(lookup, "data_parallel.costs.all_reduce");
  replicas.reduceScatter = readCost(lookup, "data_parallel.costs.reduce_scatter");
  replicas.allGather = readCost(lookup, "data_parallel.costs.all_gather");
  if (!replicas.allReduce)
    lookup.errors.add(lookup.markOf("data_parallel.costs"), "data_parallel.costs.all_reduce is missing");
}

/// The policy's name and its parameters.
void readPolicy(const Lookup &lookup, DataParallel &replicas) {
  const std::string path = "data_parallel.policy";
  const Value *policy = lookup.get(path);
  if (!policy)
    return;
  if (!policy->node->isMap()) {
    replicas.policy = {policy->node->text, policy->mark};
    return;
  }
  lookup.text(path + ".name", replicas.policy);
  for (const Key *key : keysOf(path)) {
    const Value *value = lookup.get(key->path);
    if (!value || key->name() == "name")
      continue;
    const bool chosen = std::find(key->choices.begin(), key->choices.end(), value->node->text) != key->choices.end();
    replicas.parameters[std::string(key->name())] = {chosen ? DataParallel::kAutomatic : value->numbers[0].fixed,
                                                     value->mark};
  }
}

void readExchange(const Lookup &lookup, DataParallel &replicas) {
  if (lookup.get("data_parallel.collective"))
    lookup.single("data_parallel.collective", replicas.collective.emplace());
  if (const Value *fusion = lookup.get("data_parallel.fusion")) {
    const std::string &text = fusion->node->text;
    replicas.fusion = {text == "auto"   ? DataParallel::kAutomatic
                       : text == "none" ? 0
                                        : fusion->numbers[0].fixed,
                       fusion->mark};
  }
  if (const Value *shard = lookup.get("data_parallel.shard")) {
    if (shard->numbers[0].fixed > int64_t(Shard::None))
      lookup.errors.add(shard->mark,
                        fmt::format("data_parallel.shard: expected optimizer or none, found {}, which is not supported "
                                    "yet",
                                    shard->node->text));
    else
      lookup.single("data_parallel.shard", replicas.shard.emplace());
  }
  if (const Value *round = lookup.get("data_parallel.round"))
    replicas.round = round->numbers[0].fixed;
}

} // namespace

void resolveDataParallel(const Lookup &lookup, Spec &spec) {
  DataParallel &replicas = spec.dataParallel;
  replicas.mark = lookup.markOf("data_parallel");
  lookup.single("data_parallel.degree", replicas.degree);
  const auto &[degree, mark] = replicas.degree;
  if (int64_t(degree) * spec.ranks.value > limits::kProcesses)
    lookup.errors.add(mark, fmt::format("data_parallel.degree: expected at most {} processes, found {} ranks x {} "
                                        "replicas",
                                        limits::kProcesses, spec.ranks.value, degree));
  if (degree > 1 && spec.placement && spec.placement->kind == PlacementKind::Bidirectional)
    lookup.errors.add(spec.placement->mark,
                      "pipeline.placement: bidirectional placement with replicas is not supported yet", mark,
                      "the degree is given here");
  readCosts(lookup, replicas);
  readPolicy(lookup, replicas);
  readExchange(lookup, replicas);
  if (const Value *port = lookup.get("data_parallel.port"))
    replicas.sharesPort = port->numbers[0].fixed != 0;
}

} // namespace pipec::spec
