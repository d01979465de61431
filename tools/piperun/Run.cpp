// Loads and proves the plan, starts the run, and gathers its results.
#include "tools/piperun/Run.h"

#include "runtime/job/MakeJob.h"
#include "runtime/launch/Joined.h"
#include "runtime/launch/Local.h"
#include "runtime/plan/Evaluation.h"
#include "runtime/plan/Place.h"
#include "runtime/plan/Units.h"
#include "runtime/result/Transfers.h"
#include "runtime/simulate/ScenarioFile.h"
#include "runtime/stage/MakeStage.h"
#include "tools/piperun/Progress.h"
#include "tools/piperun/Replanner.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <utility>

namespace pipec::piperun {

namespace {

Status enoughFiles(int32_t processes) {
  rlimit files{};
  constexpr rlim_t kOwn = 32; // of the launcher itself
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && rlim_t(processes) + kOwn > files.rlim_cur)
    return Status::run(fmt::format("{} local processes need as many open files, the limit here is {} (ulimit -n)",
                                   processes, files.rlim_cur));
  return {};
}

/// Reads --network. A mistake in the file is reported with its place.
Status readNetwork(const std::string &path, const plan::Plan &plan, runtime::RunOptions &options, Place &wrong) {
  options.realNetwork = path == kReal;
  if (path.empty() || options.realNetwork)
    return {};
  simulate::Scenario network;
  simulate::Place place;
  Status status = simulate::readScenario(path, plan.ranks(), network, place, plan.shards());
  network.degree = plan.degree();
  if (!status.ok())
    wrong = {path, place.line, place.column};
  options.network = std::make_shared<simulate::Scenario>(std::move(network));
  return status;
}

Status writeTrace(const Arguments &a, const plan::Plan &plan, const runtime::LocalResult &result) {
  std::vector<runtime::Layout> layouts;
  for (int32_t process = 0; process < plan.world(); ++process)
    layouts.push_back(runtime::layoutOf(plan, process));
  return runtime::writeTrace(a.trace, layouts, result.events, result.decisions);
}

/// The preparation that both ways of launching need.
struct Prepared {
  std::shared_ptr<plan::Plan> plan = std::make_shared<plan::Plan>();
  std::array<uint8_t, 32> hash{};
  runtime::RunOptions options;
};

/// Why the layers of the model cannot move to other stages while the run goes on; empty: they can.
std::string whyKeepsCut(const Arguments &a, const plan::Plan &plan) {
  if (a.checkpoint.empty())
    return "the run has no --checkpoint";
  if (plan.degree() > 1)
    return "the plan has replicas, each of which has its own share of a layer's state";
  if (plan.shards() > 1)
    return "the plan has shards, each of which has its own part of a layer's state";
  if (plan.variants.front().cut.empty())
    return "the plan does not say which layers its stages hold: its spec has no layers";
  return runtime::checkStage(a.stage, plan, {.byLayers = true}).message;
}

/// Checks --job and --no-jobs against the plan's jobs.
Status checkJobs(const Arguments &a, const plan::Plan &plan, const runtime::RunOptions &options) {
  const std::vector<plan::Job> &jobs = plan.variants.front().jobs;
  for (const auto &[name, choice] : options.jobs) {
    if (std::ranges::find(jobs, name, &plan::Job::name) == jobs.end()) {
      std::string known;
      for (const plan::Job &each : jobs)
        known += (known.empty() ? "" : ", ") + each.name;
      return Status::usage(fmt::format("--job: the plan has no job '{}'; it has {}", units::shown(name),
                                       known.empty() ? "none" : known));
    }
    if (Status status = runtime::checkJob(choice); !status.ok())
      return status;
  }
  if (jobs.empty() || a.noJobs)
    return {};
  if (a.device == "cuda")
    return Status::usage("--device=cuda: jobs do not run on GPUs yet: leave them out with --no-jobs");
  return {};
}

/// Prepares a run. `spread`: whether the job has several machines.
Status prepare(const Arguments &a, bool spread, Prepared &prepared, Outcome &outcome) {
  Status status = runtime::readProved(a.plan(), *prepared.plan, prepared.hash);
  if (status.ok() && prepared.plan->variants.front().sharesStages() &&
      prepared.plan->variants.front().boundaries.empty())
    status = Status::input("the plan does not say what its stages hand on of a sample: compile it anew");
  if (status.ok())
    status =
        runtime::checkStage(a.stage, *prepared.plan, {.onGpu = a.device == "cuda", .evaluates = a.evaluateEvery > 0});
  if (status.ok() && a.evaluateEvery > 0)
    if (status = plan::mayEvaluate(*prepared.plan); !status.ok())
      status.message = "--evaluate-every: " + status.message;
  runtime::RunOptions network;
  if (status.ok())
    status = readNetwork(a.network, *prepared.plan, network, outcome.wrong);
  if (status.ok() && !a.checkpoint.empty())
    status = runtime::prepareFolder(a.checkpoint);
  if (!status.ok())
    return status;
  network.device = a.device;
  network.transport = runtime::transportOf(a.device, a.transport, prepared.plan->world(), spread);
  network.steps = a.steps;
  if (status = runtime::checkTransfers(*prepared.plan, network); !status.ok())
    return status;
  prepared.options = optionsOf(a, runtime::longestStep(*prepared.plan, network), network);
  if (status = checkJobs(a, *prepared.plan, prepared.options); !status.ok())
    return status;
  if (a.adapts())
    prepared.options.keepsCut = whyKeepsCut(a, *prepared.plan);
  if (a.cut && !prepared.options.keepsCut.empty())
    return Status::usage("--cut: " + prepared.options.keepsCut);
  for (const plan::Variant &variant : prepared.plan->variants)
    prepared.options.calls.push_back(runtime::callPoints(variant));
  outcome.plan = prepared.plan;
  outcome.device = a.device;
  outcome.transport = prepared.options.transport;
  outcome.communicator = runtime::communicatorOf(*prepared.plan, prepared.options);
  outcome.stage = a.stage;
  outcome.asked = a.steps;
  outcome.pace = prepared.options.pace;
  return {};
}

/// Opens the checkpoint folder: the run resumes from its checkpoint or, with --overwrite, begins anew.
Status openFolder(const Arguments &a, const plan::Plan &plan, bool restarted, runtime::FolderHold &hold,
                  std::optional<runtime::Manifest> &resume) {
  if (a.checkpoint.empty())
    return {};
  const runtime::FolderUse use{.resumes = a.resume || restarted, .needsOne = a.resume, .overwrites = a.overwrite};
  const Status status = runtime::openFolder(a.checkpoint, plan, use, hold, resume);
  return status.ok() && resume && resume->ofLayers() ? runtime::checkStage(a.stage, plan, {.byLayers = true}) : status;
}

std::optional<runtime::Adaptation::Mode> modeOf(const Arguments &a) {
  return a.adapts() ? runtime::Adaptation::modeOf(a.adapt.empty() ? "on" : a.adapt) : std::nullopt;
}

/// Listens at --control. If the run re-plans and there is no --control, listens at a path that nobody else knows.
Status openControl(const Arguments &a, Replanner &replanner, runtime::ControlSocket &control, std::string &path,
                   Outcome &outcome) {
  path = a.control;
  Status status;
  if (!a.replan.empty()) {
    outcome.wrong = {a.replan};
    status = replanner.check(a.replan, a.plan());
    if (status.ok())
      outcome.wrong = {};
    if (status.ok() && path.empty())
      status = replanner.makeSocket(path);
  }
  return status.ok() && !path.empty() ? control.open(path) : status;
}

Status runLocal(const Arguments &a, const Prepared &prepared, Outcome &outcome) {
  runtime::LocalSetup setup{
      prepared.plan, prepared.hash, prepared.options, a.swapEvery, modeOf(a), {}, a.restart, nullptr, {}};
  Status status = enoughFiles(prepared.plan->world());
  Replanner replanner(a.verbose, a.cut); // made before the socket, which is in its folder
  runtime::ControlSocket control;
  std::string path;
  if (status.ok())
    status = openControl(a, replanner, control, path, outcome);
  if (!path.empty())
    setup.control = &control;
  runtime::FolderHold hold;
  if (status.ok())
    status = openFolder(a, *prepared.plan, false, hold, setup.resume);
  Progress progress(*prepared.plan, !a.quiet && !a.verbose);
  setup.progressed = [&](int64_t step) {
    progress.reached(step, a.steps);
    replanner.watch();
  };
  bool replans = !a.replan.empty();
  const auto started = [&](const runtime::LocalResult &) {
    if (!std::exchange(replans, false))
      return;
    if (const Status child = replanner.start(path); !child.ok())
      spdlog::warn("{}", child.message);
  };
  if (status.ok())
    status = runtime::runLocal(setup, started, outcome.result);
  progress.clear();
  if (status.ok())
    status = runtime::conclude(prepared.options, outcome);
  if (status.ok() && !a.trace.empty())
    status = writeTrace(a, *prepared.plan, outcome.result);
  return status;
}

/// "2 ranks", with replicas "2 ranks of 3 replicas, 6 processes", with shards "2 ranks of 3 shards, 6 processes".
std::string processesOf(const plan::Plan &plan) {
  const plan::Grid grid = plan::gridOf(plan);
  return fmt::format("{} ranks", plan.ranks()) +
         (grid.each() == 1 ? ""
                           : fmt::format(" of {} {}, {} processes", grid.each(),
                                         grid.shards == 1 ? "replicas" : "shards", plan.world()));
}

/// The secret of the job, from PIPEC_SECRET.
Status readSecret(const Arguments &a, std::string &secret) {
  const char *given = std::getenv("PIPEC_SECRET");
  secret = given ? given : "";
  if (!secret.empty() || a.noSecret)
    return {};
  return Status::usage("PIPEC_SECRET is not set: set it to the same long random text for all processes of the job (for "
                       "example to what `openssl rand -hex 32` prints), or say --no-secret, and whoever reaches the "
                       "port may join");
}

Status runJoined(const Arguments &a, const Prepared &prepared, const runtime::Environment &environment,
                 Outcome &outcome) {
  runtime::JoinedSetup setup{
      prepared.plan, prepared.hash, prepared.options, environment, {}, a.swapEvery, {}, modeOf(a), nullptr, {}};
  Status status;
  if (setup.environment.world != prepared.plan->world())
    status = Status::usage(fmt::format("the plan is of {}, {} has started {} processes", processesOf(*prepared.plan),
                                       setup.environment.source, setup.environment.world));
  if (status.ok())
    status = readSecret(a, setup.secret);
  int32_t rank = setup.environment.rank;
  outcome.silent = rank != 0;
  setup.options.attempt = setup.environment.attempt;
  setup.options.localRank = setup.environment.localRank;
  runtime::FolderHold hold; // rank 0's
  if (!status.ok())
    return status;
  spdlog::set_pattern(fmt::format("%n: {}: %v", plan::processName(rank, plan::gridOf(*prepared.plan))));
  if (!a.trace.empty())
    setup.options.ownTrace = runtime::traceOf(a.trace, rank);
  Replanner replanner(a.verbose, a.cut);
  runtime::ControlSocket control;
  std::string path;
  if (rank == 0)
    setup.refused = openFolder(a, *prepared.plan, setup.environment.attempt > 0, hold, setup.resume);
  if (rank == 0 && setup.refused.ok())
    setup.refused = openControl(a, replanner, control, path, outcome);
  if (!path.empty())
    setup.control = &control;
  if (rank == 0 && setup.refused.ok() && !a.replan.empty())
    setup.refused = replanner.start(path);
  Progress progress(*prepared.plan, rank == 0 && !a.quiet && !a.verbose);
  setup.progressed = [&](int64_t step) {
    progress.reached(step, a.steps);
    replanner.watch();
  };
  status = runtime::runJoined(setup, outcome.result.run);
  progress.clear();
  return status.ok() && rank == 0 ? runtime::conclude(prepared.options, outcome) : status;
}

} // namespace

Status run(const Arguments &a, Outcome &outcome) {
  Prepared prepared;
  runtime::Environment environment;
  Status status;
  if (!a.local)
    status = runtime::readEnvironment([](const char *name) { return std::getenv(name); }, environment);
  if (status.ok())
    status = prepare(a, environment.spread, prepared, outcome);
  if (!status.ok())
    return status;
  return a.local ? runLocal(a, prepared, outcome) : runJoined(a, prepared, environment, outcome);
}

static runtime::Encoded requestOf(const Arguments &a) {
  using namespace runtime::messages;
  const std::string command = a.command();
  if (command == "load") // the run reads the file, from its own folder
    return encode(Load{std::filesystem::absolute(a.words[1]).string()});
  if (command == "swap")
    return encode(Swap{a.words[1]});
  if (command == "adapt")
    return encode(Adapt{a.words[1]});
  return command == "stop" ? encode(Stop{}) : encode(AskStatus{});
}

Status ask(const Arguments &a) {
  runtime::Message answer;
  Status status = runtime::askControl(a.control, requestOf(a), answer, a.patience());
  if (status.ok())
    fmt::print("{}", a.json ? answerJson(answer) : answerText(a.command(), answer));
  return status;
}

} // namespace pipec::piperun
