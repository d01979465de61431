// Rules P7, P11 and P47, where they are about layers of which there are replicas: what is exchanged, in closed form.
#include "runtime/plan/Limits.h"
#include "runtime/plan/rules/Rules.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <map>

namespace pipec::plan::rules {

Status layerSizes(const Variant &variant) {
  const std::vector<Layer> &layers = variant.layers;
  if (layers.empty())
    return {};
  const auto error = [](const std::string &what) { return Status::input("P7: " + what); };
  if (int64_t(layers.size()) > limits::kLayers)
    return error(fmt::format("{} layers, expected 0 to {}", layers.size(), limits::kLayers));
  if (variant.copies != 1 || variant.slices != 1)
    return error(fmt::format("{} copies and {} slices of sequences, expected one of each where there are replicas",
                             variant.copies, variant.slices));
  int32_t stage = -1;
  __int128 gradients = 0, weights = 0; // of the stage
  for (size_t i = 0; i != layers.size(); ++i) {
    const Layer &layer = layers[i];
    if (layer.stage != stage) {
      if (layer.stage != stage + 1 || layer.stage >= variant.stages)
        return error(fmt::format("layer {} is of stage {} after one of stage {}, expected one or more of each of {} "
                                 "stages in their order",
                                 i, layer.stage, stage, variant.stages));
      stage = layer.stage;
      gradients = weights = 0;
    }
    if (layer.sharded && layer.gradients == 0)
      return error(fmt::format("layer {}, of stage {}, is sharded without gradients", i, stage));
    for (auto [sum, own] : {std::pair(&gradients, layer.gradients), std::pair(&weights, layer.weights)})
      if (own < 0 || (*sum += own) > limits::kBytes)
        return error(fmt::format("layer {}, of stage {}, has gradients or weights of {} bytes, expected 0 to {} in a "
                                 "stage",
                                 i, stage, own, limits::kBytes));
  }
  if (stage != variant.stages - 1)
    return error(
        fmt::format("the last layer is of stage {}, expected one or more of each of {} stages", stage, variant.stages));
  return {};
}

namespace {

/// Why the layers and bytes of a collective with replicas are wrong, or null.
const char *wrongBytes(const Operation &o, const StageLayers &layers) {
  if (o.layers == 0)
    return "no layers, expected those whose gradients or weights it carries";
  if (o.begin < 0 || o.end <= o.begin || o.bytes != o.end - o.begin)
    return "no byte range as long as its payload";
  const StageLayers::Range range = layers.of(o);
  const auto [begin, end] = layers.bytesOf(o.stage, range, o.of);
  if (o.begin == begin && o.end == end)
    return nullptr;
  if (o.kind != Kind::AllReduce)
    return "a byte range that is not all of its layers";
  if (o.begin < begin || o.end > end || layers.layerAt(o.stage, o.begin) != range.first ||
      layers.layerAt(o.stage, o.end - 1) != range.end - 1)
    return "a byte range that does not lie in its first and last layer";
  return nullptr;
}

/// Why what a gather carries is wrong, or null.
const char *wrongGather(const Operation &o, const StageLayers &layers) {
  return layers.areSharded(o.stage, layers.of(o), o.of == Payload::Weights)
             ? nullptr
             : "weights of layers whose updates are not sharded, or gradients of others";
}

} // namespace

const char *wrongLayers(const Operation &o, const StageLayers &layers) {
  if (isOfShared(o))
    return nullptr; // wrongShared
  if (o.firstLayer < 0 || o.layers < 0 || (o.layers == 0 && o.firstLayer != 0) ||
      (o.layers != 0 && !layers.empty() &&
       (o.firstLayer >= layers.count(o.stage) || o.layers > layers.count(o.stage) - o.firstLayer)))
    return "layers out of range";
  if (o.layers != 0 && !isBusy(o.kind) && !isCollective(o.kind))
    return "layers, which only passes, updates and collectives have";
  const bool ofReplicas =
      isCollective(o.kind) && !plan::movesSamples(o.kind) && o.of != Payload::Norm && !layers.empty();
  if (!ofReplicas && (o.begin != 0 || o.end != 0))
    return "a byte range, which only collectives of layers have";
  if (layers.empty())
    return o.layers != 0 || o.kind == Kind::ReduceScatter || o.kind == Kind::AllGather
               ? "something that is between replicas, of which there are none"
               : nullptr;
  if (isCollective(o.kind) && !ofReplicas)
    return o.layers != 0 ? "layers, which a norm or a reshard has not" : nullptr;
  if (!ofReplicas)
    return nullptr;
  const char *wrong = wrongBytes(o, layers);
  return wrong || plan::sums(o.kind) ? wrong : wrongGather(o, layers);
}

namespace {

/// What one stage's layers go through in a step.
struct StageExchange {
  struct Piece {
    int64_t begin, end, times;
    bool operator<(const Piece &other) const { return begin < other.begin; }
  };
  std::vector<Piece> sums;                       // bytes
  std::vector<Piece> scatters, gathers, updates; // layers

  void add(const Operation &o, int64_t times, const StageLayers &layers) {
    const StageLayers::Range range = layers.of(o);
    const Piece own{range.first, range.end, times};
    if (does(o.kind, kUpdate))
      updates.push_back(own);
    if (!isCollective(o.kind) || o.of == Payload::Norm || plan::movesSamples(o.kind) || isOfShared(o))
      return;
    if (!plan::sums(o.kind))
      return gathers.push_back(own);
    sums.push_back({o.begin, o.end, times});
    if (o.kind == Kind::ReduceScatter)
      scatters.push_back(own);
  }
};
using Piece = StageExchange::Piece;

/// The first number that pieces have twice; -1: none.
int64_t firstTwice(std::vector<Piece> &pieces) {
  std::sort(pieces.begin(), pieces.end());
  int64_t end = 0;
  for (const Piece &each : pieces) {
    if (each.times > 1 || each.begin < end)
      return each.begin;
    end = each.end;
  }
  return -1;
}
/// The first number below `count` that sorted pieces, apart from each other, do not have; -1: none.
int64_t firstWithout(const std::vector<Piece> &pieces, int64_t count) {
  int64_t end = 0;
  for (const Piece &each : pieces) {
    if (each.begin != end)
      return end;
    end = each.end;
  }
  return end < count ? end : -1;
}

Status exchangeError(const char *what, int64_t number, int32_t stage, const char *found) {
  return Status::check(fmt::format("P47: {} {} of stage {} is {} a step", what, number, stage, found));
}

/// What is done twice; afterwards all pieces are sorted, apart from each other.
Status doneTwice(int32_t stage, StageExchange &own) {
  if (const int64_t byte = firstTwice(own.sums); byte >= 0)
    return exchangeError("byte", byte, stage, "summed more than once");
  for (auto [pieces, twice] :
       {std::pair(&own.scatters, "scattered more than once"), std::pair(&own.gathers, "gathered more than once"),
        std::pair(&own.updates, "updated more than once")})
    if (const int64_t layer = firstTwice(*pieces); layer >= 0)
      return exchangeError("layer", layer, stage, twice);
  return {};
}

/// What is lacking for a layer with gradients, or null.
const char *lacking(const Layer &layer, bool scattered, bool gathered, bool updated) {
  if (!updated)
    return "not updated in";
  if (scattered != gathered)
    return scattered ? "scattered and not gathered in" : "gathered and not scattered in";
  return layer.sharded && !scattered ? "sharded and not scattered in" : nullptr;
}

/// What is not done, or done with some layers that are sharded and some that are not. `alone`: on one rank, which has
/// all gradients.
Status notDone(int32_t stage, const StageExchange &own, const StageLayers &layers, bool alone) {
  const int32_t count = layers.count(stage);
  const Bytes summed = alone ? 0 : layers.bytesOf(stage, {0, count}, Payload::Gradients).second;
  if (const int64_t byte = firstWithout(own.sums, summed); byte >= 0)
    return exchangeError("byte", byte, stage, "not summed in");
  std::array<std::vector<bool>, 3> has; // scattered, gathered, updated
  const std::vector<Piece> *const pieces[] = {&own.scatters, &own.gathers, &own.updates};
  for (size_t i = 0; i != has.size(); ++i) {
    has[i].resize(size_t(count));
    for (const Piece &each : *pieces[i])
      std::fill(has[i].begin() + each.begin, has[i].begin() + each.end, true);
  }
  for (int32_t n = 0; n != count; ++n)
    if (const Layer &layer = layers.at(stage, n); layer.gradients > 0) // what others do has no effect
      if (const char *what = lacking(layer, has[0][size_t(n)], has[1][size_t(n)], has[2][size_t(n)]))
        return exchangeError("layer", n, stage, what);
  for (const Piece &each : own.updates) {
    const StageLayers::Range range{int32_t(each.begin), int32_t(each.end)};
    if (!layers.areSharded(stage, range, true) && !layers.areSharded(stage, range, false))
      return exchangeError("layer", each.begin, stage, "updated with others, of which some alone are sharded, in");
  }
  return {};
}

} // namespace

Status exchange(const Variant &variant, const std::vector<Facts> &facts, const StageLayers &layers) {
  if (layers.empty())
    return {};
  std::map<std::pair<size_t, int32_t>, StageExchange> stages; // by rank
  bool updates = false;
  for (size_t r = 0; r != variant.programs.size(); ++r)
    for (size_t i = 0; i != variant.programs[r].operations.size(); ++i)
      if (const Operation &o = variant.programs[r].operations[i]; facts[r].operation[i] > 0) {
        if (!plan::movesSamples(o.kind))
          stages[{r, o.stage}].add(o, facts[r].operation[i], layers);
        updates |= does(o.kind, kUpdate);
      }
  for (auto &[place, own] : stages) {
    const int32_t stage = place.second;
    const bool alone = variant.sharesStages() && variant.stageGroups[size_t(stage)] == -1;
    if (Status status = doneTwice(stage, own); !status.ok())
      return status;
    if (!updates && (!own.sums.empty() || !own.gathers.empty()))
      return Status::check(fmt::format("P47: gradients of stage {} are exchanged, which no update takes", stage));
    if (Status status = updates ? notDone(stage, own, layers, alone) : Status{}; !status.ok())
      return status;
  }
  return {};
}

} // namespace pipec::plan::rules
