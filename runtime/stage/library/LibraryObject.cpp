// From an instruction to a call, and from its error to a line.
#include "runtime/stage/library/LibraryObject.h"

#include "runtime/library/LibraryCall.h"
#include "runtime/plan/Layers.h"
#include "runtime/plan/Provider.h"
#include "runtime/stage/library/Facts.h"

#include <fmt/format.h>

namespace pipec::runtime {

namespace {

/// What the library said where that failed, else nothing.
template <typename F, typename... Arguments> std::string call(const F &function, Arguments... arguments) {
  return callLibrary<PipecError>("stage library", function, arguments...);
}

} // namespace

Status LibraryObject::create(const plan::Plan &plan, int32_t device, void *context) {
  std::string provider;
  if (Status status = plan::jsonOf(plan.provider, provider); !status.ok())
    return status;
  layers = LayerTable(plan, own.rank);
  std::vector<PipecStageFacts> facts = factsOf(plan, own.rank, own.shard);
  PipecSetup setup{};
  setup.size = sizeof(PipecSetup);
  setup.rank = own.rank;
  setup.ranks = plan.ranks();
  setup.world_rank = own.world();
  setup.world = plan.world();
  setup.stages = plan.variants.front().stages;
  setup.layers = plan::layersOf(plan.variants.front());
  setup.own_count = int32_t(facts.size());
  setup.own = facts.data();
  setup.microbatches = microbatchesOf(plan);
  setup.provider = provider.c_str();
  setup.device = device;
  setup.context = context;
  setup.replica = own.replica;
  setup.replicas = own.degree;
  setup.shard = own.shard;
  setup.shards = own.shards;
  if (shards.group) {
    openGroup();
    setup.group = &group;
  }
  std::string error = call(library.create, &setup, &object);
  if (error.empty() && !object)
    error = "pipec_stage_create made no stage";
  if (error.empty())
    return findLayers();
  object = nullptr; // none of it is ours to destroy
  return Status::run(fmt::format("{}: {}", plan::nameOf(own), error));
}

/// Asks for the memory of each layer that the replicas sum, which must be as large as the plan says.
Status LibraryObject::findLayers() {
  for (auto &[stage, ofStage] : layers.all())
    for (size_t l = 0; l <= ofStage.size(); ++l) { // beyond the last there is none
      PipecLayer found{};
      found.size = sizeof found;
      std::string error = call(library.layer, object, stage, int32_t(l), &found);
      const bool beyond = l == ofStage.size();
      if (error.empty() && beyond)
        error = fmt::format("is there, and the plan has {} layers", ofStage.size());
      else if (beyond)
        continue;
      else if (error.empty())
        error = takeLayer(found, ofStage[l]);
      if (!error.empty())
        return Status::run(
            fmt::format("{}: stage {} of the stage library: layer {}: {}", plan::nameOf(own), stage, l, error));
    }
  return {};
}

LibraryObject::~LibraryObject() {
  if (object)
    library.destroy(object);
}

PipecCall LibraryObject::callOf(const Label &label, Slot in, Slot out, void *stream) const {
  const plan::Operation &operation = *label.operation;
  return {.size = sizeof(PipecCall),
          .stage = operation.stage,
          .microbatch = label.microbatch,
          .step = label.step,
          .input = in.data,
          .input_bytes = in.bytes,
          .output = out.data,
          .output_bytes = out.bytes,
          .stream = stream,
          .first_layer = operation.firstLayer,
          .layers = layers.count(operation),
          .sharded = plan::does(operation.kind, plan::kUpdate) && layers.sharded(operation)};
}

// A plan that was loaded later may need a function that the library was not checked for.
std::string LibraryObject::run(const Label &label, Slot in, Slot out, void *stream) {
  const bool evaluates = label.evaluation > 0;
  const Library::Call &function = evaluates ? library.evaluate : library.calls[size_t(label.operation->kind)];
  if (!function)
    return fmt::format("the stage library has no function for {}",
                       evaluates ? "an evaluation" : plan::name(label.operation->kind));
  const PipecCall what = callOf(label, in, out, stream);
  return call(function, object, &what);
}

std::string LibraryObject::runPair(const PipecCall &forward, const PipecCall &backward) {
  return call(library.forwardBackward, object, &forward, &backward);
}

std::string LibraryObject::gradientNorm(const Label &label, Slot number, void *stream) {
  PipecCall norm = callOf(label, {}, number, stream);
  norm.stage = -1; // of all stages of the rank
  return library.gradientNorm ? call(library.gradientNorm, object, &norm) : "";
}

std::string LibraryObject::setGlobalNorm(const Label &label, Slot number, void *stream) {
  PipecCall norm = callOf(label, number, {}, stream);
  norm.stage = -1;
  return library.setGlobalNorm ? call(library.setGlobalNorm, object, &norm) : "";
}

Status LibraryObject::save(const std::string &path, int64_t steps) {
  std::string error = call(library.save, object, path.c_str(), steps);
  return error.empty() ? Status{} : Status::run(fmt::format("{}: cannot save: {}", plan::nameOf(own), error));
}

Status LibraryObject::load(const std::string &path, int64_t steps) {
  shared = {}; // what is to be is told again
  std::string error = call(library.load, object, path.c_str(), steps);
  return error.empty() ? Status{} : Status::run(fmt::format("{}: cannot load: {}", plan::nameOf(own), error));
}

Status LibraryObject::saveLayer(int32_t layer, const std::string &path, int64_t steps) {
  std::string error = call(library.saveLayer, object, layer, path.c_str(), steps);
  return error.empty() ? Status{}
                       : Status::run(fmt::format("{}: cannot save layer {}: {}", plan::nameOf(own), layer, error));
}

Status LibraryObject::loadLayer(int32_t layer, const std::string &path, int64_t steps) {
  std::string error = call(library.loadLayer, object, layer, path.c_str(), steps);
  return error.empty() ? Status{}
                       : Status::run(fmt::format("{}: cannot load layer {}: {}", plan::nameOf(own), layer, error));
}

/// What the library says; nothing: it has taken them.
std::string LibraryObject::callPortions(const std::vector<PipecPortion> &told) {
  return call(library.portions, object, told.data(), int32_t(told.size()));
}

StageMemory LibraryObject::memory() const {
  PipecMemory memory{};
  memory.size = sizeof(PipecMemory);
  library.memory(object, &memory);
  return {memory.fixed, memory.live, memory.peak};
}

} // namespace pipec::runtime
