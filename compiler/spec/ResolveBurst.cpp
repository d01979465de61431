// `schedule: burst`: its parameters, and what of the rest of a spec it needs or does not go with.
#include "compiler/spec/Resolve.h"

#include "compiler/spec/Scalars.h"
#include "runtime/plan/Limits.h"

#include <algorithm>
#include <array>
#include <bit>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace pipec::spec {
namespace {

constexpr std::array<std::string_view, 5> kParameters = {"foreground", "amplification", "widths", "sync", "choices"};

void refuse(const Lookup &lookup, const Spec &spec, Mark mark, std::string message) {
  lookup.errors.add(mark, std::move(message), spec.schedule.mark, "the schedule is given here");
}

/// Known parameters, and of those that say which planner at most one.
void checkNames(const Lookup &lookup, const Node &schedule) {
  const Node::Name *first = nullptr;
  for (const Node::Name &name : schedule.names) {
    if (name.text == "name")
      continue;
    const std::string path = "schedule." + shown(name.text);
    const size_t at = size_t(std::ranges::find(kParameters, name.text) - kParameters.begin());
    if (at == kParameters.size())
      lookup.errors.add(name.mark, fmt::format("{}: schedule burst has no such parameter; it has {}", path,
                                               fmt::join(kParameters, ", ")));
    if (at > 2)
      continue;
    if (first)
      lookup.errors.add(name.mark, fmt::format("{}: give one of foreground, amplification and widths", path),
                        first->mark, first->text + " is given here");
    else
      first = &name;
  }
}

/// What a parameter says, as its key demands; null if it is absent.
const Node *read(const Lookup &lookup, const Node &schedule, std::string_view name, int64_t &into) {
  const Node *node = schedule.find(name);
  const Key &key = *findKey(fmt::format("schedule.{}", name));
  if (!node)
    return nullptr;
  const Quantity quantity = parseScalar(key, *node);
  if (!quantity.ok())
    lookup.errors.add(node->mark, fmt::format("{}: {}", key.path, quantity.error));
  into = quantity.value;
  return node;
}

/// Widths from 1 to ranks and batch, one or as many as layers.
void readWidths(const Lookup &lookup, const Node &node, const Spec &spec, Burst &burst) {
  if (spec.ranks.value == 0 || !spec.microbatchSize)
    return; // said already
  const bool byBatch = spec.microbatchSize->value < spec.ranks.value;
  Key key = *findKey("schedule.widths");
  key.most = std::min(spec.ranks.value, spec.microbatchSize->value);
  const auto add = [&](const std::string &path, const Node &item) {
    const Quantity width = parseScalar(key, item);
    burst.widths.push_back(int32_t(width.value));
    if (!width.ok())
      lookup.errors.add(item.mark, fmt::format("{}: {}", path, width.error),
                        byBatch ? spec.microbatchSize->mark : spec.ranks.mark,
                        byBatch ? "the batch is given here" : "the ranks are given here");
  };
  if (!node.isSequence())
    return add("schedule.widths", node);
  for (size_t i = 0; i < node.items.size() && !lookup.errors.full(); ++i)
    add(fmt::format("schedule.widths[{}]", i), *node.items[i]);
  if (const int64_t layers = spec.layers ? spec.layers->count() : 0;
      layers > 0 && lookup.get("layers") && node.items.size() != size_t(layers))
    lookup.errors.add(node.mark, fmt::format("schedule.widths: expected {} values, one for each layer, found {}",
                                             layers, node.items.size()));
}

Burst readParameters(const Lookup &lookup, const Node &schedule, const Spec &spec) {
  Burst burst;
  burst.mark = spec.schedule.mark;
  const auto plans = [&](const Node *parameter, Planner planner) {
    if (!parameter)
      return;
    burst.planner = planner;
    burst.mark = parameter->mark;
  };
  plans(read(lookup, schedule, "foreground", burst.foreground), Planner::Exact);
  plans(read(lookup, schedule, "amplification", burst.amplification), Planner::Paper);
  plans(schedule.find("widths"), Planner::Given);
  if (burst.planner == Planner::Given)
    readWidths(lookup, *schedule.find("widths"), spec, burst);
  int64_t sync = 0, choices = 0;
  read(lookup, schedule, "sync", sync);
  read(lookup, schedule, "choices", choices);
  burst.sync = Sync(sync);
  burst.choices = WidthChoices(choices);
  return burst;
}

/// Times and sizes of a layer must say what they are at any local batch.
void checkLayer(const Lookup &lookup, const std::string &path, const Spec &spec) {
  for (const char *time : {".forward", ".backward"})
    if (const Value *value = lookup.get(path + time); value && value->numbers[0].bySamples.empty())
      refuse(lookup, spec, value->mark,
             fmt::format("{}{}: expected times by local batch with schedule burst, such as {{samples: {{1: 43us, 2: "
                         "74us}}}}, found {}",
                         path, time, describe(*value->node)));
  if (!lookup.given(path + ".backward") && lookup.given(path + ".backward_input"))
    refuse(lookup, spec, lookup.markOf(path),
           fmt::format("{}.backward is missing: schedule burst runs whole backwards", path));
  if (lookup.given(path + ".splits"))
    refuse(lookup, spec, lookup.markOf(path + ".splits"),
           fmt::format("{}.splits: expected none with schedule burst", path));
}

void checkSize(const Lookup &lookup, const std::string &path, const Spec &spec) {
  const Value *value = lookup.get(path);
  if (value && !value->node->isSequence() && !value->numbers[0].sampled && value->numbers[0].fixed > 0)
    refuse(
        lookup, spec, value->mark,
        fmt::format("{}: expected {{fixed, per_sample}} with schedule burst, found {}", path, describe(*value->node)));
}

/// Samples change ranks both ways in buffers of one size.
void refuseGradient(const Lookup &lookup, const std::string &of, const Spec &spec) {
  const std::string path = of + ".boundary_gradient";
  if (lookup.given(path))
    refuse(lookup, spec, lookup.markOf(path),
           fmt::format("{}: expected none with schedule burst, whose gradients have the size of the boundary", path));
}

/// How many layers there may be. A plan may have each of them on each rank; finding the exact one takes time that grows
/// with the third power of layers and the square of widths (compiler/burst/README.md).
void checkCount(const Lookup &lookup, Spec &spec) {
  constexpr int64_t kPlaces = int64_t(1) << 20, kLayers = 4096, kExactLayers = 256, kExactWidths = 4096;
  const int64_t layers = spec.layers->count();
  const auto tooMany = [&](int64_t most, const std::string &why) {
    if (layers > most)
      refuse(lookup, spec, spec.layers->mark,
             fmt::format("layers: expected at most {} {}, found {}", most, why, layers));
    return layers > most;
  };
  const int64_t ranks = std::max(spec.ranks.value, 1);
  if (tooMany(std::min(kLayers, kPlaces / ranks), fmt::format("with schedule burst on {} ranks", ranks)))
    return;
  // As many stages as there can be, until a plan has made some of one width one.
  spec.stages = int32_t(layers);
  if (spec.burst->planner != Planner::Exact || !spec.microbatchSize)
    return;
  const int64_t most = std::max<int64_t>(std::min(ranks, int64_t(spec.microbatchSize->value)), 1);
  const int64_t widths = spec.burst->choices == WidthChoices::All ? most : std::bit_width(uint64_t(most));
  tooMany(std::min(kExactLayers, kExactWidths / widths),
          fmt::format("for an exact plan of {} widths; schedule.amplification or schedule.widths take more", widths));
}

void checkLayers(const Lookup &lookup, Spec &spec) {
  if (!spec.layers) {
    lookup.errors.add(spec.schedule.mark, "schedule: burst needs layers, each with times by local batch, found none");
    return;
  }
  checkSize(lookup, "tensors.boundary", spec);
  refuseGradient(lookup, "tensors", spec);
  for (size_t i = 0; lookup.given(fmt::format("layers[{}]", i)) && !lookup.errors.full(); ++i) {
    const std::string path = fmt::format("layers[{}]", i);
    checkLayer(lookup, path, spec);
    refuseGradient(lookup, path, spec);
    for (const char *size : {".boundary", ".activation", ".weight_context"})
      checkSize(lookup, path + size, spec);
  }
  checkCount(lookup, spec);
}

/// What else stands in the spec and has no meaning here.
void checkRest(const Lookup &lookup, const Spec &spec) {
  for (const char *path : {"pipeline.stages_per_rank", "pipeline.placement", "pipeline.cut"})
    if (lookup.given(path))
      refuse(lookup, spec, lookup.markOf(path),
             fmt::format("{}: expected none with schedule burst, which makes its own stages", path));
  constexpr std::pair<const char *, std::string_view> kOnly[] = {{"data_parallel.degree", "1"},
                                                                 {"tensor_parallel.shards", "1"},
                                                                 {"pipeline.slices", "1"},
                                                                 {"recompute", "none"},
                                                                 {"backward", "fused"},
                                                                 {"weights", "ordered"},
                                                                 {"costs.optimizer.global_norm", "false"}};
  const auto says = [](const Node &node, std::string_view only) {
    return only == "none" && node.isSequence() ? node.items.empty() : node.text == only;
  };
  for (const auto &[path, only] : kOnly)
    if (const Value *value = lookup.get(path); value && !says(*value->node, only))
      refuse(lookup, spec, value->mark,
             fmt::format("{}: expected {} with schedule burst, found {}", path, only, describe(*value->node)));
}

} // namespace

void resolveBurst(const Lookup &lookup, Spec &spec) {
  const Node &schedule = *lookup.get("schedule")->node;
  checkNames(lookup, schedule);
  spec.burst = readParameters(lookup, schedule, spec);
  checkLayers(lookup, spec);
  checkRest(lookup, spec);
}

} // namespace pipec::spec
