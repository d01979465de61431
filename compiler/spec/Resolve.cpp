// What values mean together: costs, links, tensors, schedule, target.
#include "compiler/spec/Resolve.h"

#include "compiler/spec/Keys.h"
#include "compiler/spec/Tree.h"
#include "runtime/plan/Limits.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <utility>

namespace pipec::spec {
namespace {

/// Reads the figures of stages that a map gives; with `layers` those that may stand beside them.
void readStages(const Lookup &lookup, std::string_view map, Spec &spec) {
  const bool layers = lookup.given("layers");
  for (const Key *key : keysOf(map)) {
    if (!key->figure || (layers && !plan::rowOf(*key->figure).besideLayers))
      continue;
    std::string path(key->path);
    if (lookup.given(path + ".time")) // of costs.optimizer
      path += ".time";
    PerStage values;
    if (lookup.perStage(path, spec, plan::mostOf(plan::rowOf(*key->figure)), values))
      spec.figures.set(*key->figure) = std::move(values);
  }
}

void readCosts(const Lookup &lookup, Spec &spec) {
  spec.costs = lookup.markOf("costs");
  bool layers = lookup.given("layers");
  if (!lookup.given("costs") && !layers)
    lookup.errors.add(spec.costs, "costs is missing");
  if (!lookup.get("costs"))
    return;
  lookup.single("costs.optimizer.global_norm", spec.globalNorm);
  readStages(lookup, "costs", spec);
  if (layers) // what else stands in costs, the layers contradict
    return;
  if (!lookup.given("costs.forward"))
    lookup.errors.add(spec.costs, "costs.forward is missing");
  backwardForm(lookup, "costs");
}

void readLinks(const Lookup &lookup, Spec &spec) {
  lookup.link("costs.link", spec.link);
  lookup.single("costs.collective", spec.collective);
  std::map<std::pair<int32_t, int32_t>, Mark> first;
  for (size_t i = 0; lookup.given(fmt::format("costs.links[{}]", i)); ++i) {
    std::string path = fmt::format("costs.links[{}]", i);
    const Value *from = lookup.get(path + ".from");
    const Value *to = lookup.get(path + ".to");
    if (!from || !to)
      continue;
    LinkException exception{static_cast<int32_t>(from->numbers[0].fixed), static_cast<int32_t>(to->numbers[0].fixed),
                            spec.link, lookup.markOf(path)};
    bool known = true;
    for (const Value *end : {from, to})
      if (spec.ranks.value > 0 && end->numbers[0].fixed >= spec.ranks.value) {
        lookup.errors.add(end->mark,
                          fmt::format("{}.{}: expected a rank from 0 to {}, found {}", path,
                                      end == from ? "from" : "to", spec.ranks.value - 1, end->numbers[0].fixed));
        known = false;
      }
    if (known && exception.from == exception.to)
      lookup.errors.add(to->mark,
                        fmt::format("{}: expected two ranks, found {} twice; stages on one rank hand over at no "
                                    "cost",
                                    path, exception.from));
    auto [at, inserted] = first.emplace(std::pair{exception.from, exception.to}, exception.mark);
    if (!inserted)
      lookup.errors.add(exception.mark,
                        fmt::format("{}: the link from {} to {} is given twice", path, exception.from, exception.to),
                        at->second, "first given here");
    lookup.link(path, exception.link);
    spec.links.push_back(exception);
  }
}

void readTensors(const Lookup &lookup, Spec &spec) {
  readStages(lookup, "tensors", spec);
  if (lookup.get("tensors.workspace"))
    spec.workspace = {lookup.ofMicrobatch("tensors.workspace", spec, limits::kBytes),
                      lookup.markOf("tensors.workspace")};
}

void readMemory(const Lookup &lookup, Spec &spec) {
  const Value *value = lookup.get("memory.limit");
  if (!value)
    return;
  std::vector<int64_t> limits;
  for (const Number &number : value->numbers)
    limits.push_back(number.fixed);
  spec.memoryLimit = {*std::max_element(limits.begin(), limits.end()), value->mark};
  if (!value->node->isSequence())
    return;
  if (spec.ranks.value > 0 && limits.size() != size_t(spec.ranks.value))
    lookup.errors.add(value->mark, fmt::format("memory.limit: expected {} values, one for each rank, found {}",
                                               spec.ranks.value, limits.size()));
  spec.memoryLimits = std::move(limits);
}

Parameter parameter(const Node &node) {
  Parameter result;
  result.mark = node.mark;
  result.list = node.isSequence();
  auto add = [&](const Node &scalar) {
    result.values.push_back(scalar.text);
    result.marks.push_back(scalar.mark);
  };
  if (result.list)
    for (const NodePtr &item : node.items)
      add(*item);
  else
    add(node);
  return result;
}

void readSchedule(const Lookup &lookup, Spec &spec) {
  const Value *value = lookup.get("schedule");
  if (!value)
    return;
  const Node &node = *value->node;
  spec.schedule = {node.text, node.mark, {}};
  for (size_t i = 0; i < node.names.size(); ++i) {
    if (node.names[i].text == "name") {
      spec.schedule.name = node.items[i]->text;
      spec.schedule.mark = node.items[i]->mark;
    } else {
      spec.schedule.parameters.emplace(node.names[i].text, parameter(*node.items[i]));
    }
  }
}

void readRecompute(const Lookup &lookup, Spec &spec) {
  const Value *value = lookup.get("recompute");
  if (!value)
    return;
  Recompute &recompute = spec.recomputed;
  recompute.stages.mark = value->mark;
  if (value->node->isSequence()) {
    for (const Number &number : value->numbers) {
      recompute.stages.value.push_back(number.fixed);
      recompute.marks.push_back(number.mark);
    }
    return;
  }
  const std::string_view choice = value->key->choices[size_t(value->numbers[0].fixed)];
  recompute.all = choice == "all";
  recompute.chooses = choice == "auto";
  if (recompute.chooses && !lookup.given("memory.limit"))
    lookup.errors.add(value->mark, "recompute: auto chooses what fits into memory.limit, found none: give a limit, or "
                                   "all, none or a list of stages");
}

void readTarget(const Lookup &lookup, Spec &spec) {
  if (lookup.get("backward"))
    lookup.single("backward", spec.backwardMode.emplace());
  readRecompute(lookup, spec);
  lookup.single("weights", spec.weights);
  lookup.single("communicator", spec.communicator);
  spec.rings.value = spec.ofVariants ? Rings::Any : Rings::Predicted;
  lookup.single("rings", spec.rings);
}

} // namespace

std::string readProvider(const Lookup &lookup, const std::string &path) {
  const Value *provider = lookup.get(path);
  if (!provider)
    return {};
  // Counted first: aliases may repeat a text without end.
  if (textBytes(*provider->node, limits::kProviderBytes) <= limits::kProviderBytes)
    if (std::string json = toJson(*provider->node); json.size() <= static_cast<size_t>(limits::kProviderBytes))
      return json;
  lookup.errors.add(provider->mark,
                    fmt::format("{}: expected at most {} bytes as JSON, found more", path, limits::kProviderBytes));
  return {};
}

void resolve(const Values &values, Mark root, Spec &spec, Errors &errors) {
  Lookup lookup(values, root, errors);
  readSchedule(lookup, spec); // first: some of the rest depends on its name
  resolvePipeline(lookup, spec);
  readCosts(lookup, spec);
  readLinks(lookup, spec);
  readTensors(lookup, spec);
  readMemory(lookup, spec);
  resolveLayers(lookup, spec);
  readTarget(lookup, spec);
  resolveDataParallel(lookup, spec);
  resolveTensorParallel(lookup, spec);
  if (spec.isBurst())
    resolveBurst(lookup, spec);
  // `auto` is split unless it is told otherwise, and what is whole in a schedule that it tries costs what B and W do.
  if (spec.schedule.name == "auto" && spec.has(Figure::BackwardInput) &&
      (!spec.backwardMode || spec.backwardMode->value == Backward::Split))
    spec.figures.reset(Figure::Backward);
  resolveJobs(lookup, spec);
  resolveShared(lookup, spec);
  if (lookup.get("provider"))
    spec.provider = {readProvider(lookup, "provider"), lookup.markOf("provider")};
}

} // namespace pipec::spec
