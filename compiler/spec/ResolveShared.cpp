// `shared`: weights that several layers hold, such as an embedding that is also the head. Which stages these layers are
// in, setStages checks once it is known.
#include "compiler/spec/Resolve.h"

#include "runtime/plan/Limits.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <tuple>

namespace pipec::spec {
namespace {

void readLayers(const Lookup &lookup, const std::string &path, SharedWeight &weight) {
  const Value *value = lookup.get(path);
  if (!value)
    return;
  std::map<int64_t, Mark> first;
  for (size_t i = 0; i < value->numbers.size() && !lookup.errors.full(); ++i) {
    const int64_t layer = value->numbers[i].fixed;
    if (const auto [at, isNew] = first.emplace(layer, value->numbers[i].mark); !isNew)
      lookup.errors.add(value->numbers[i].mark, fmt::format("{}[{}]: layer {} is given twice", path, i, layer),
                        at->second, "first given here");
  }
  if (value->numbers.size() < 2)
    lookup.errors.add(value->mark, fmt::format("{}: expected two layers or more that hold one weight, found {}", path,
                                               value->numbers.size()));
  for (const auto &[layer, mark] : first) {
    weight.layers.push_back(int32_t(layer));
    weight.marks.push_back(mark);
  }
}

/// What cannot be together with shared weights yet.
void refuse(const Lookup &lookup, const Spec &spec) {
  const Mark mark = lookup.markOf("shared");
  const auto with = [&](const char *what, Mark other) {
    lookup.errors.add(mark, fmt::format("shared: weights that several layers hold are not supported yet with {}", what),
                      other, "given here");
  };
  if (const auto &shard = spec.dataParallel.shard; shard && shard->value == Shard::Optimizer)
    with("replicas that update shares of layers (data_parallel.shard)", shard->mark);
  if (spec.tensorParallel.shards.value > 1)
    with("shards of ranks", spec.tensorParallel.shards.mark);
  if (!spec.jobs.work.empty())
    with("background jobs", spec.jobs.mark);
  if (spec.isBurst())
    with("layers of several widths (burst)", spec.schedule.mark);
  if (spec.placement && spec.placement->kind == PlacementKind::Bidirectional)
    with("two copies of the stages", spec.placement->mark);
}

} // namespace

void resolveShared(const Lookup &lookup, Spec &spec) {
  __int128 bytes = 0, layers = 0;
  for (size_t i = 0; lookup.given(fmt::format("shared[{}]", i)) && !lookup.errors.full(); ++i) {
    const std::string path = fmt::format("shared[{}]", i);
    SharedWeight weight;
    weight.mark = lookup.markOf(path);
    readLayers(lookup, path + ".layers", weight);
    if (const Value *gradients = lookup.get(path + ".gradients"))
      weight.gradients = gradients->numbers[0].fixed;
    layers += weight.layers.size();
    if ((bytes += weight.gradients) > limits::kBytes || layers > limits::kLayers)
      return lookup.errors.add(
          weight.mark, fmt::format("{}: expected at most {} bytes and {} layers of all shared weights, found more",
                                   path, limits::kBytes, limits::kLayers));
    spec.shared.push_back(std::move(weight));
  }
  if (spec.shared.empty())
    return;
  refuse(lookup, spec);
  // Backwards end with the first layers, so the weights of later ones are there first.
  std::sort(spec.shared.begin(), spec.shared.end(), [](const SharedWeight &one, const SharedWeight &other) {
    return std::tie(one.layers, one.gradients) > std::tie(other.layers, other.gradients);
  });
}

} // namespace pipec::spec
