// From a setup to a joined run, and from duties to instructions.
#include "runtime/embed/HostRun.h"

#include "runtime/checkpoint/StepFolders.h"
#include "runtime/plan/Evaluation.h"
#include "runtime/result/Outcome.h"
#include "runtime/result/Transfers.h"
#include "runtime/simulate/Steps.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

namespace pipec::embed {

using runtime::Duty;

namespace {

constexpr auto kPatience = std::chrono::milliseconds(100);       // of next() and get()
constexpr int64_t kEndless = int64_t(1) << 60;                   // steps, of a run whose host says which is the last
constexpr double kDeadline = 60, kIdle = 600, kRendezvous = 300; // seconds

std::atomic<int64_t> opened{0}; // runs of this process

std::string textOf(const char *text) { return text ? text : ""; }

/// Seconds, or the default. What is longer than a week is as good as no limit.
plan::Time timeOf(double seconds, double otherwise) {
  constexpr double kMost = 7 * 24 * 3600;
  return plan::Time(std::min(seconds > 0 ? seconds : otherwise, kMost) * 1e12);
}

/// Of a plan for one process that nobody has started.
runtime::Environment alone() {
  runtime::Environment environment;
  environment.source = "the host";
  environment.world = 1;
  environment.host = "127.0.0.1";
  environment.port = 20'000;
  environment.job = fmt::format("alone/{}", getpid());
  environment.jobSource = "the process";
  return environment;
}

/// As the host itself says.
Status givenPlace(const PipecRunSetup &given, runtime::Environment &environment) {
  if (given.port < 1 || given.port > UINT16_MAX || given.processes < 1 || given.process < 0 ||
      given.process >= given.processes || given.local < 0 || !given.job)
    return Status::usage(fmt::format("host: port {}, process {} of {}, {} on its machine, {} job: expected a port, a "
                                     "process below their number, and a job",
                                     given.port, given.process, given.processes, given.local, given.job ? "a" : "no"));
  environment.source = "the host";
  environment.rank = given.process;
  environment.world = given.processes;
  environment.localRank = given.local;
  environment.host = given.host;
  environment.port = uint16_t(given.port);
  environment.job = given.job;
  environment.jobSource = "the host's job";
  environment.spread = given.spread != 0;
  return {};
}

/// As the launcher says. A plan for one process needs no launcher.
Status launchedPlace(const plan::Plan &plan, runtime::Environment &environment) {
  const auto variable = [](const char *name) { return std::getenv(name); };
  const Status status = runtime::readEnvironment(variable, environment);
  if (status.ok())
    return {};
  if (plan.world() != 1 || std::getenv("RANK"))
    return Status::usage("a host runs one process for each rank: start it with torchrun, Slurm or Open MPI (" +
                         status.message + ")");
  environment = alone();
  return {};
}

Status readPlace(const PipecRunSetup &given, const plan::Plan &plan, runtime::Environment &environment) {
  if (Status status = given.host ? givenPlace(given, environment) : launchedPlace(plan, environment); !status.ok())
    return status;
  if (environment.world == plan.world())
    return {};
  return Status::usage(fmt::format("the plan is for {} processes ({} ranks{}), {} has started {}", plan.world(),
                                   plan.ranks(), plan.degree() > 1 ? fmt::format(" of {} replicas", plan.degree()) : "",
                                   environment.source, environment.world));
}

int32_t kindOf(const Duty &duty) {
  switch (duty.kind) {
  case Duty::Kind::Nothing:
    return PIPEC_RUN_NONE;
  case Duty::Kind::Norm:
    return PIPEC_RUN_NORM;
  case Duty::Kind::Clip:
    return PIPEC_RUN_CLIP;
  case Duty::Kind::Save:
    return PIPEC_RUN_SAVE;
  case Duty::Kind::Load:
    return PIPEC_RUN_LOAD;
  case Duty::Kind::EndOfStep:
    return PIPEC_RUN_END_OF_STEP;
  case Duty::Kind::End:
    return PIPEC_RUN_END;
  case Duty::Kind::Work:
    break;
  }
  switch (duty.label.operation->kind) {
  case plan::Kind::Forward:
    return PIPEC_RUN_F;
  case plan::Kind::BackwardInput:
    return PIPEC_RUN_B;
  case plan::Kind::BackwardWeight:
    return PIPEC_RUN_W;
  case plan::Kind::Backward:
    return PIPEC_RUN_BW;
  case plan::Kind::Recompute:
    return PIPEC_RUN_R;
  default:
    return PIPEC_RUN_OPTIMIZER;
  }
}

} // namespace

HostRun::HostRun(runtime::JoinedSetup given) : setup(std::move(given)) {}

Status HostRun::open(const PipecRunSetup &given, std::unique_ptr<HostRun> &run) {
  const int64_t number = opened++; // also of one that fails: it fails on all ranks
  auto plan = std::make_shared<plan::Plan>();
  runtime::JoinedSetup joined{};
  Status status = runtime::readProved(textOf(given.plan), *plan, joined.planHash);
  if (status.ok())
    status = checkHosted(*plan);
  if (status.ok())
    status = readPlace(given, *plan, joined.environment);
  if (!status.ok())
    return status;
  joined.plan = plan;
  joined.environment.job += fmt::format("run {}", number);
  std::unique_ptr<HostRun> made(new HostRun(std::move(joined)));
  status = made->take(given);
  if (!status.ok())
    return status;
  made->begin();
  run = std::move(made);
  return {};
}

Status HostRun::take(const PipecRunSetup &given) {
  const plan::Plan &plan = *setup.plan;
  runtime::RunOptions &options = setup.options;
  place = plan::placeOf(setup.environment.rank, plan);
  options.steps = kEndless;
  options.device = given.device ? given.device : "host";
  if (options.device != "host" && options.device != "cuda")
    return Status::usage("device: expected host or cuda, got " + options.device);
  const std::string transport = textOf(given.transport);
  if (!transport.empty() && (options.device == "host" || (transport != "ipc" && transport != "nccl")))
    return Status::usage(fmt::format("transport: expected ipc or nccl, with the device cuda, got {} with {}", transport,
                                     options.device));
  if (given.adapt && options.device == "cuda")
    return Status::usage("adapt: runs adapt on the device host alone yet: leave it out");
  options.transport = runtime::transportOf(options.device, transport, plan.world(), setup.environment.spread);
  options.localRank = setup.environment.localRank;
  options.pace = runtime::Pace::Real;
  options.stage = "host";
  options.deadline = given.deadline > 0 ? timeOf(given.deadline, 0)
                                        : std::max(timeOf(0, kDeadline), 2 * runtime::longestStep(plan, options));
  options.idle = std::max(timeOf(given.idle, kIdle), options.deadline);
  options.rendezvous = timeOf(given.rendezvous, kRendezvous);
  options.attempt = setup.environment.attempt;
  options.checkpoint = textOf(given.checkpoint);
  options.every = std::max<int64_t>(given.every, 0);
  options.hosting.folders = given.folders != 0;
  options.runsJobs = false;
  options.hosting.overlaps = std::ranges::any_of(plan.variants, &simulate::overlaps);
  options.keepsCut = "the host's modules keep their layers";
  if (given.trace)
    options.ownTrace = runtime::traceOf(given.trace, setup.environment.rank);
  if (given.adapt) {
    setup.adapt = runtime::Adaptation::modeOf(given.adapt);
    if (!setup.adapt)
      return Status::usage(fmt::format("adapt: expected on, observe or profile, got {}", given.adapt));
    options.measure = true;
  }
  for (const plan::Variant &variant : plan.variants)
    options.calls.push_back(runtime::callPoints(variant));
  const char *known = std::getenv("PIPEC_SECRET");
  setup.secret = given.secret ? given.secret : textOf(known);
  if (!given.secret && setup.secret.empty() && plan.world() > 1)
    return Status::usage("the processes of the run need a secret in common, by which they know each other: set "
                         "PIPEC_SECRET to the same long random text for all of them, or pass one");
  Status status = given.refused ? Status::usage(given.refused) : runtime::checkTransfers(plan, options);
  if (status.ok())
    status = takeLayers(given);
  if (status.ok() && setup.environment.rank == 0)
    status = takeFiles(given);
  if (plan.world() == 1)
    return status;
  setup.refused = status; // the others are told first
  return {};
}

/// What rank 0 alone has: the folder of checkpoints, the control socket.
Status HostRun::takeFiles(const PipecRunSetup &given) {
  const std::string &folder = setup.options.checkpoint;
  const runtime::FolderUse use{.resumes = given.resume || setup.environment.attempt > 0,
                               .overwrites = given.overwrite != 0,
                               .folder = "checkpoint",
                               .resume = "resume",
                               .overwrite = "overwrite"};
  Status status;
  if (!folder.empty())
    status = runtime::prepareFolder(folder, use);
  const bool folders = setup.options.hosting.folders;
  if (status.ok() && !folder.empty() && folders) {
    std::optional<int64_t> step;
    status = runtime::openStepFolders(folder, use, hold, step);
    if (step)
      setup.resume.emplace().step = *step;
  } else if (status.ok() && !folder.empty()) {
    status = runtime::openFolder(folder, *setup.plan, use, hold, setup.resume);
  }
  if (status.ok() && setup.resume && setup.resume->ofLayers() && !folders)
    status = Status::usage(
        fmt::format("checkpoint: the states in {} are of layers, those of a host are of processes", folder));
  if (status.ok() && given.control) {
    status = control.open(given.control);
    setup.control = &control;
  }
  return status;
}

/// Where ranks have replicas every layer must be there, as large as the plan says.
Status HostRun::takeLayers(const PipecRunSetup &given) {
  if (given.layer_count < 0)
    return Status::usage(fmt::format("layer_count: expected 0 or more, got {}", given.layer_count));
  if (given.layer_count > 0 && !given.layers)
    return Status::usage(fmt::format("layers: there are {}, at no address", given.layer_count));
  runtime::LayerTable table(*setup.plan, place.rank);
  const char *at = reinterpret_cast<const char *>(given.layers);
  for (int32_t i = 0; i < given.layer_count; ++i) {
    const auto &layer = *reinterpret_cast<const PipecRunLayer *>(at);
    if (layer.size < sizeof layer || layer.size % alignof(PipecRunLayer) != 0)
      return Status::usage(
          fmt::format("layers: the size of number {} is {}, expected {}", i, layer.size, sizeof layer));
    at += layer.size;
    const auto found = table.all().find(layer.stage);
    if (found == table.all().end() || layer.layer < 0 || size_t(layer.layer) >= found->second.size() ||
        (layer.stage == plan::kSharedWeights && !runtime::isSummed(found->second[size_t(layer.layer)])))
      return Status::usage(fmt::format("layers: {} has no stage {} with a layer {} whose gradients are summed",
                                       plan::nameOf(place), layer.stage, layer.layer));
    const PipecLayer memory{sizeof memory, layer.type, layer.gradients, layer.weights, layer.elements};
    if (const std::string wrong = runtime::takeLayer(memory, found->second[size_t(layer.layer)]); !wrong.empty())
      return Status::usage(fmt::format("layers: stage {} layer {}: {}", layer.stage, layer.layer, wrong));
  }
  for (const auto &[stage, layers] : table.all())
    for (size_t l = 0; l < layers.size(); ++l)
      if (stage == plan::kSharedWeights && !layers[l].gradients && runtime::isSummed(layers[l]))
        return Status::usage(fmt::format("layers: shared weight {} is missing (stage {}): ranks sum its gradients", l,
                                         plan::kSharedWeights));
      else if (stage != plan::kSharedWeights && !layers[l].gradients && layers[l].planned.gradients > 0)
        return Status::usage(
            fmt::format("layers: stage {} layer {} is missing: its replicas sum its gradients", stage, l));
  setup.options.hosting.layers = std::move(table);
  return {};
}

std::string HostRun::reportOf(const runtime::RunResult &of) const {
  runtime::Outcome outcome;
  outcome.plan = setup.plan;
  outcome.pace = runtime::Pace::Real;
  outcome.device = setup.options.device;
  outcome.transport = setup.options.transport;
  outcome.communicator = runtime::communicatorOf(*setup.plan, setup.options);
  outcome.stage = setup.options.stage;
  outcome.asked = of.end;
  outcome.result.run = of;
  const Status status = runtime::conclude(setup.options, outcome);
  if (!status.ok())
    spdlog::warn("the run's report could not be made: {}", status.message);
  return status.ok() ? runtime::toJson(outcome) : std::string();
}

void HostRun::begin() {
  setup.options.hosting.handover = &handover;
  setup.talk = &talk;
  setup.report = [this](const runtime::RunResult &of) { return reportOf(of); };
  handover.onFailure([this] { talk.fail(); });
  thread = std::thread([this] {
    Status status;
    try {
      status = runtime::runJoined(setup, result);
    } catch (const std::exception &error) { // no memory
      status = Status::run(fmt::format("{}: {}", plan::nameOf(place), error.what()));
    }
    if (status.ok())
      handover.end();
    else
      handover.fail(status);
  });
}

HostRun::~HostRun() { close(""); }

void HostRun::close(const std::string &why) {
  if (!thread.joinable())
    return;
  if (!ended)
    handover.fail(Status::run(fmt::format("{}: {}", plan::nameOf(place), why.empty() ? "its run was closed" : why)));
  handover.close();
  thread.join();
}

Status HostRun::next(PipecRunInstruction &instruction) {
  between = false;
  if (!ended)
    duty = handover.next(std::chrono::steady_clock::now() + kPatience);
  if (Status status = failed(); !status.ok() && !ended)
    return status;
  ended = duty.kind == Duty::Kind::End;
  PipecRunInstruction given{};
  given.size = sizeof given;
  given.kind = kindOf(duty);
  given.stage = -1;
  given.replica = place.replica;
  given.step = duty.step;
  given.stream = duty.stream;
  given.number = duty.number;
  given.path = duty.path.empty() ? nullptr : duty.path.c_str();
  given.input = duty.slots.in.data;
  given.input_bytes = duty.slots.in.bytes;
  given.output = duty.slots.out.data;
  given.output_bytes = duty.slots.out.bytes;
  if (const plan::Operation *operation = duty.label.operation) {
    const runtime::LayerTable &layers = setup.options.hosting.layers;
    given.step = duty.label.step;
    given.epoch = duty.label.epoch;
    given.microbatch = duty.label.microbatch;
    given.microbatches = duty.label.program->microbatches;
    given.evaluation = duty.label.evaluation;
    if (duty.kind == Duty::Kind::Work) {
      given.stage = operation->stage;
      given.first_layer = operation->firstLayer;
      given.layers = operation->layers;
      given.sharded = plan::does(operation->kind, plan::kUpdate) && layers.sharded(*operation);
      given.recomputed = operation->kind == plan::Kind::Forward &&
                         std::ranges::count(duty.label.program->recomputed, operation->stage) > 0;
    }
  }
  const uint32_t size = std::min<uint32_t>(instruction.size, sizeof given);
  given.size = instruction.size;
  std::copy_n(reinterpret_cast<const char *>(&given), size, reinterpret_cast<char *>(&instruction));
  return {};
}

Status HostRun::done(const PipecRunResult &of) {
  handover.done(of.error && !*of.error ? "it failed" : textOf(of.error), of.number);
  between = duty.kind == Duty::Kind::EndOfStep;
  return of.error ? Status{} : failed();
}

Status HostRun::finish() {
  if (!between && !ended)
    return Status::usage("finish comes between two steps");
  handover.finish();
  return failed();
}

Status HostRun::drain() {
  if (!between)
    return Status::usage("drain comes between two steps");
  between = false;
  handover.drain();
  return failed();
}

Status HostRun::evaluate(int64_t rounds) {
  if (!between)
    return Status::usage("an evaluation comes between two steps");
  if (rounds < 1)
    return Status::usage(fmt::format("rounds: expected 1 or more, got {}", rounds));
  if (Status status = plan::mayEvaluate(*setup.plan); !status.ok())
    return status;
  between = false;
  handover.evaluate(rounds);
  return failed();
}

Status HostRun::swap(const std::string &variant, int64_t &from) {
  Status status = talk.swap(variant, from);
  return failed().ok() ? status : failed();
}

Status HostRun::stop() {
  Status status = talk.stop("the host of " + plan::nameOf(place));
  return failed().ok() ? status : failed();
}

Status HostRun::put(const std::string &key, const std::string &what) {
  Status status = talk.put(key, what);
  return failed().ok() ? status : failed();
}

Status HostRun::get(const std::string &key, const char *&found) {
  const std::optional<std::string> came = talk.get(key, std::chrono::steady_clock::now() + kPatience);
  text = came.value_or("");
  found = came ? text.c_str() : nullptr;
  return failed();
}

Status HostRun::report(const char *&found) {
  if (!ended)
    return Status::usage("the run has not ended");
  json = talk.report();
  found = json.c_str();
  return {};
}

} // namespace pipec::embed
