// From an instruction to a call and from its error to the rank's failure.
#include "runtime/stage/library/LibraryStage.h"

#include "runtime/plan/Disassemble.h"
#include "runtime/plan/Layers.h"
#include "runtime/plan/Provider.h"
#include "runtime/stage/library/Facts.h"

#include <cstring>
#include <fmt/format.h>

namespace pipec::runtime {

using plan::Kind;

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
template <typename F, typename... Arguments> std::string call(F *function, Arguments... arguments) {
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

Status LibraryStage::make(const Library &library, const plan::Plan &plan, int32_t rank, HostDevice &device,
                          const Clock &clock, Failure &failure, std::unique_ptr<Stage> &stage) {
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
  setup.device = -1;
  std::unique_ptr<LibraryStage> made(new LibraryStage(library, rank, device, clock, failure));
  std::string error = call(library.create, &setup, &made->object);
  if (error.empty() && !made->object)
    error = "pipec_stage_create made no stage";
  if (!error.empty()) {
    made->object = nullptr; // none of it is ours to destroy
    return Status::run(fmt::format("rank {}: {}", rank, error));
  }
  stage = std::move(made);
  return {};
}

LibraryStage::~LibraryStage() {
  if (object)
    library.destroy(object);
}

void LibraryStage::fail(const Label &label, const std::string &why) const {
  failure.raise(Status::run(fmt::format("{}: {}", plan::describe(rank, *label.operation, label.microbatch), why)));
}

namespace {

PipecCall callOf(const HostWork &work) {
  const Label label = work.label();
  const Slot in = work.in(), out = work.out();
  return {.size = sizeof(PipecCall),
          .stage = label.operation->stage,
          .microbatch = label.microbatch,
          .step = label.step,
          .input = in.data,
          .input_bytes = in.bytes,
          .output = out.data,
          .output_bytes = out.bytes,
          .stream = nullptr};
}

} // namespace

/// A pair's header waits for what either pass needs, and nothing behind the pair starts before both have completed
/// (P43).
void LibraryStage::runPair(const HostWork &header) {
  HostWork forward = header, backward = header;
  forward.item = header.item + 1;
  backward.item = header.item + 2;
  const PipecCall first = callOf(forward), second = callOf(backward);
  if (std::string error = call(library.forwardBackward, object, &first, &second); !error.empty())
    fail(forward.label(), error);
  inPair = 2;
}

HostBody::Span LibraryStage::run(const HostWork &work, plan::Time) {
  const Label label = work.label();
  const plan::Operation &op = *label.operation;
  plan::Time start = clock.now();
  if (inPair > 0) {
    --inPair;
    return {start, start};
  }
  if (op.kind == Kind::Overlapped) {
    if (!library.forwardBackward || !work.item->heads) // the two run one after the other
      return {start, start};
    runPair(work);
    return {start, clock.now()};
  }
  // A plan that was loaded later may need a function that the library was not checked for.
  if (Library::Call *function = library.calls[size_t(op.kind)]) {
    const PipecCall what = callOf(work);
    if (std::string error = call(function, object, &what); !error.empty())
      fail(label, error);
  } else {
    fail(label, fmt::format("the stage library has no function for {}", plan::name(op.kind)));
  }
  return {start, clock.now()};
}

void LibraryStage::gradientNorm(QueueId, const Label &label, Slot number) {
  std::memset(number.data, 0, size_t(number.bytes)); // where the library has no such function
  const PipecCall norm{.size = sizeof(PipecCall),
                       .stage = -1, // of all stages of the rank
                       .microbatch = 0,
                       .step = label.step,
                       .input = nullptr,
                       .input_bytes = 0,
                       .output = number.data,
                       .output_bytes = number.bytes,
                       .stream = nullptr};
  if (library.gradientNorm)
    if (std::string error = call(library.gradientNorm, object, &norm); !error.empty())
      fail(label, error);
}

void LibraryStage::setGlobalNorm(QueueId, const Label &label, Slot number) {
  const PipecCall norm{.size = sizeof(PipecCall),
                       .stage = -1,
                       .microbatch = 0,
                       .step = label.step,
                       .input = number.data,
                       .input_bytes = number.bytes,
                       .output = nullptr,
                       .output_bytes = 0,
                       .stream = nullptr};
  if (library.setGlobalNorm)
    if (std::string error = call(library.setGlobalNorm, object, &norm); !error.empty())
      fail(label, error);
}

Status LibraryStage::save(const std::string &path, int64_t steps) {
  std::string error = call(library.save, object, path.c_str(), steps);
  return error.empty() ? Status{} : Status::run(fmt::format("rank {}: cannot save: {}", rank, error));
}

Status LibraryStage::load(const std::string &path, int64_t steps) {
  std::string error = call(library.load, object, path.c_str(), steps);
  return error.empty() ? Status{} : Status::run(fmt::format("rank {}: cannot load: {}", rank, error));
}

Status LibraryStage::saveLayer(int32_t layer, const std::string &path, int64_t steps) {
  std::string error = call(library.saveLayer, object, layer, path.c_str(), steps);
  return error.empty() ? Status{} : Status::run(fmt::format("rank {}: cannot save layer {}: {}", rank, layer, error));
}

Status LibraryStage::loadLayer(int32_t layer, const std::string &path, int64_t steps) {
  std::string error = call(library.loadLayer, object, layer, path.c_str(), steps);
  return error.empty() ? Status{} : Status::run(fmt::format("rank {}: cannot load layer {}: {}", rank, layer, error));
}

StageMemory LibraryStage::memory() const {
  PipecMemory memory{};
  memory.size = sizeof(PipecMemory);
  library.memory(object, &memory);
  return {memory.fixed, memory.live, memory.peak};
}

} // namespace pipec::runtime
