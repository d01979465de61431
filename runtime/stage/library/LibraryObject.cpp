// From an instruction to a call, and from its error to a line.
#include "runtime/stage/library/LibraryObject.h"

#include "runtime/plan/Layers.h"
#include "runtime/plan/Provider.h"
#include "runtime/stage/library/Facts.h"

#include <fmt/format.h>

namespace pipec::runtime {

namespace {

/// What the library said, fit for a message: one line of printable ASCII. It may hold anything.
std::string textOf(PipecError &error, int code) {
  error.message[sizeof(error.message) - 1] = '\0';
  std::string text = error.message;
  for (char &c : text)
    if (c < ' ' || c > '~')
      c = c == '\n' || c == '\t' ? ' ' : '?';
  while (text.ends_with(' '))
    text.pop_back();
  return text.empty() ? fmt::format("the stage library failed with code {} and no message", code) : text;
}

/// Calls into the library; its message if that fails, else nothing. No exception of a C++ library gets past here.
template <typename F, typename... Arguments> std::string call(const F &function, Arguments... arguments) {
  PipecError error{};
  try {
    int code = function(arguments..., &error);
    return code == 0 ? std::string() : textOf(error, code);
  } catch (const std::exception &thrown) {
    return fmt::format("the stage library threw an exception: {}", thrown.what());
  } catch (...) {
    return "the stage library threw an exception";
  }
}

} // namespace

Status LibraryObject::create(const plan::Plan &plan, int32_t device, void *context) {
  std::string provider;
  if (Status status = plan::jsonOf(plan.provider, provider); !status.ok())
    return status;
  std::vector<PipecStageFacts> facts = factsOf(plan, rank);
  PipecSetup setup{};
  setup.size = sizeof(PipecSetup);
  setup.rank = setup.world_rank = rank; // one process a rank (P8)
  setup.ranks = setup.world = plan.ranks();
  setup.stages = plan.variants.front().stages;
  setup.layers = plan::layersOf(plan.variants.front());
  setup.own_count = int32_t(facts.size());
  setup.own = facts.data();
  setup.microbatches = microbatchesOf(plan);
  setup.provider = provider.c_str();
  setup.device = device;
  setup.context = context;
  std::string error = call(library.create, &setup, &object);
  if (error.empty() && !object)
    error = "pipec_stage_create made no stage";
  if (error.empty())
    return {};
  object = nullptr; // none of it is ours to destroy
  return Status::run(fmt::format("rank {}: {}", rank, error));
}

LibraryObject::~LibraryObject() {
  if (object)
    library.destroy(object);
}

PipecCall LibraryObject::callOf(const Label &label, Slot in, Slot out, void *stream) {
  return {.size = sizeof(PipecCall),
          .stage = label.operation->stage,
          .microbatch = label.microbatch,
          .step = label.step,
          .input = in.data,
          .input_bytes = in.bytes,
          .output = out.data,
          .output_bytes = out.bytes,
          .stream = stream};
}

// A plan that was loaded later may need a function that the library was not checked for.
std::string LibraryObject::run(const Label &label, Slot in, Slot out, void *stream) {
  const Library::Call &function = library.calls[size_t(label.operation->kind)];
  if (!function)
    return fmt::format("the stage library has no function for {}", plan::name(label.operation->kind));
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
  return error.empty() ? Status{} : Status::run(fmt::format("rank {}: cannot save: {}", rank, error));
}

Status LibraryObject::load(const std::string &path, int64_t steps) {
  std::string error = call(library.load, object, path.c_str(), steps);
  return error.empty() ? Status{} : Status::run(fmt::format("rank {}: cannot load: {}", rank, error));
}

Status LibraryObject::saveLayer(int32_t layer, const std::string &path, int64_t steps) {
  std::string error = call(library.saveLayer, object, layer, path.c_str(), steps);
  return error.empty() ? Status{} : Status::run(fmt::format("rank {}: cannot save layer {}: {}", rank, layer, error));
}

Status LibraryObject::loadLayer(int32_t layer, const std::string &path, int64_t steps) {
  std::string error = call(library.loadLayer, object, layer, path.c_str(), steps);
  return error.empty() ? Status{} : Status::run(fmt::format("rank {}: cannot load layer {}: {}", rank, layer, error));
}

StageMemory LibraryObject::memory() const {
  PipecMemory memory{};
  memory.size = sizeof(PipecMemory);
  library.memory(object, &memory);
  return {memory.fixed, memory.live, memory.peak};
}

} // namespace pipec::runtime
