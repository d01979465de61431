// The options, their help, and the options that contradict each other.
#include "tools/piperun/Arguments.h"

#include "runtime/launch/Adaptation.h"
#include "runtime/plan/Write.h"
#include "runtime/stage/MakeStage.h"
#include "tools/commandline/CommandLine.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>

namespace pipec::piperun {

namespace fs = std::filesystem;

static constexpr double kMaxDeadline = 1e6;                    // seconds
static constexpr plan::Time kRendezvous = 300'000'000'000'000; // 5 min
static constexpr int64_t kMaxSteps = 1'000'000;

void define(CLI::App &app, Arguments &a) {
  app.set_version_flag("--version", "piperun " PIPEC_VERSION);
  app.add_option(
         "PLAN", a.words,
         "The plan to run, as pipec compile writes it; with --control PATH and no run: load PLAN | swap VARIANT "
         "| adapt on|observe|off | status | stop")
      ->required();
  app.add_flag("--local", a.local,
               "Start all processes on this machine, one a rank; else torchrun, Slurm or Open MPI has started them");
  app.add_option("--steps", a.steps, "Training steps to run, those of a resumed checkpoint included")
      ->check(CLI::Range(int64_t(1), kMaxSteps))
      ->capture_default_str();
  app.add_option("--device", a.device, "host or cuda")->check(CLI::IsMember({"host", "cuda"}))->capture_default_str();
  app.add_option("--transport", a.transport,
                 "With --device=cuda, how data get from GPU to GPU. ipc: copies into the receiver's memory, which "
                 "processes of one machine map; nccl: NCCL 2.28 or newer. Default: ipc where ranks share a GPU, else "
                 "nccl")
      ->check(CLI::IsMember({"ipc", "nccl"}));
  app.add_option("--stage", a.stage,
                 "synthetic: the plan's costs as real waits; torch; or a library LIB.so (runtime/stage/pipec_stage.h)")
      ->capture_default_str();
  app.add_option(
         "--emulate", a.emulate,
         "How synthetic operations keep time. carry: each ends where the previous deadline says, which shows that "
         "the order is right; naive: each counts from when it starts, which shows what the runtime costs")
      ->check(CLI::IsMember({"carry", "naive"}))
      ->default_str("carry");
  auto *jobs = app.add_option("--job", a.jobs,
                              "NAME=LIB.so: what computes a background job of the plan: a library "
                              "(runtime/job/pipec_job.h), or synthetic, which takes its atoms' time; may be repeated. "
                              "Default: synthetic");
  app.add_flag("--no-jobs", a.noJobs, "Leave the background jobs of the plan out")->excludes(jobs);
  app.add_option("--trace", a.trace,
                 "Write a trace to this file (ui.perfetto.dev opens it): with --local of all ranks, else each process "
                 "its own, with its rank before the suffix; over all restarts (each step once; args name the attempt)")
      ->check(fileName());
  app.add_option(
         "--deadline", a.deadline,
         "Seconds that a pass or a transfer may last, and that a process may not answer; 0: no limit; default: the "
         "larger of 5 s and twice the predicted step; of a command to a run, how long the run may say nothing: 5 s")
      ->check(CLI::Range(0.0, kMaxDeadline));
  app.add_option("--idle", a.idle,
                 "Seconds that a process may take to save or load its state, or to make its stages, while the others "
                 "wait, who say so; 0: no limit; default: 600")
      ->check(CLI::Range(0.0, kMaxDeadline));
  app.add_option(
         "--rendezvous", a.rendezvous,
         "Seconds until the host of rank 0 is known and all processes have met, which a cluster may start minutes "
         "apart; who is missing is said every 5 s; 0: no limit; default: 300, with --local the deadline")
      ->check(CLI::Range(0.0, kMaxDeadline));
  app.add_option(
         "--network", a.network,
         "A scenario (specs/networks): links are shaped as it says and payloads are whole; or real: payloads are "
         "whole and nothing is emulated (default: the plan's links, emulated)")
      ->check(fileName());
  auto *checkpoint = app.add_option("--checkpoint", a.checkpoint,
                                    "Folder for checkpoints, which all processes reach; one is made at the end")
                         ->check(fileName());
  app.add_option("--every", a.every, "Steps from one checkpoint to the next")
      ->check(CLI::Range(int64_t(1), kMaxSteps))
      ->needs(checkpoint);
  auto *resume = app.add_flag("--resume", a.resume,
                              "Go on from the checkpoint in the folder; what torchrun or Slurm restarts does so by "
                              "itself")
                     ->needs(checkpoint);
  app.add_flag("--overwrite", a.overwrite,
               "Begin anew in a folder that has a checkpoint, which goes; without this or --resume such a folder is "
               "refused")
      ->needs(checkpoint)
      ->excludes(resume);
  app.add_option("--restart", a.restart,
                 "With --local: a run that fails begins again from its last checkpoint, so many times")
      ->check(CLI::Range(int64_t(1), kMaxSteps));
  app.add_option("--control", a.control,
                 "A socket at this path: a run listens there (mode 0600); without a run, asks it to load a plan, to "
                 "swap to a variant (index or name), to choose variants by itself or no more (adapt), how it stands "
                 "(status), or to "
                 "end after the steps that are permitted (stop)");
  app.add_flag("--adapt{on}", a.adapt,
               "Measure network and ranks, and choose the variant of each step by what was measured. --adapt=observe: "
               "say what would be chosen; --adapt=profile: try each variant every 50 steps and take the shortest");
  app.add_option("--swap-every", a.swapEvery,
                 "Swap to the plan's next variant at every such step, round and round: for tests")
      ->check(CLI::Range(int64_t(1), kMaxSteps));
  app.add_option("--evaluate-every", a.evaluateEvery,
                 "Evaluate behind every such step: the forwards of as many microbatches as a step has, which keep "
                 "nothing; a stage library needs pipec_stage_evaluate")
      ->check(CLI::Range(int64_t(1), kMaxSteps));
  auto *replan =
      app.add_option("--replan", a.replan,
                     "Keep planning anew by this spec, for the network as it is measured, and load what pays (pipec "
                     "replan, from beside piperun or PATH); implies --adapt")
          ->check(fileName());
  app.add_flag("--cut", a.cut,
               "With --replan: move layers between stages too where that pays, off a slow rank for example; a stage "
               "library must be able to save by layer")
      ->needs(replan)
      ->needs(checkpoint);
  app.add_flag("--no-secret", a.noSecret, "Run without PIPEC_SECRET: whoever reaches the port may join");
  auto *verbose = app.add_flag("-v,--verbose", a.verbose, "Say what happens, with each rank's process id");
  app.add_flag("-q,--quiet", a.quiet, "Say nothing but errors")->excludes(verbose);
  app.add_flag("--json", a.json, "Print one JSON object on standard output and nothing else");
  // These options describe the command line itself, whatever else is on it.
  app.add_option_function<std::string>(
         "--completion",
         [&app](const std::string &shell) {
           fmt::print("{}", completion(app, shell, {}));
           throw CLI::Success();
         },
         "Print a script that completes this command line in bash or zsh: source <(piperun --completion bash)")
      ->check(CLI::IsMember({"bash", "zsh"}));
  app.add_flag_callback(
      "--man",
      [&app] {
        fmt::print("{}", manual(app, "", PIPEC_VERSION));
        throw CLI::Success();
      },
      "Print a manual page: piperun --man > piperun.1");
  app.footer(
      "Examples:\n  pipec compile specs/1f1b.yaml -o 1f1b.pipe\n  piperun 1f1b.pipe --local --steps 20 --trace "
      "1f1b.json\n  piperun 1f1b.pipe --local --steps 9000 --control /tmp/run &\n  piperun --control /tmp/run swap 1\n"
      "  torchrun --nproc-per-node 4 --no-python piperun 1f1b.pipe\n\n"
      "Ctrl-C or SIGTERM ends a run when the steps that may already begin are done; a second one ends it at once.\n\n"
      "Exit codes: 0 done, 1 the plan is damaged, 2 the usage is wrong, 3 the plan must not run, 4 the run failed.");
}

std::string Arguments::command() const {
  for (const char *each : {"load", "swap", "adapt", "status", "stop"})
    if (words.front() == each && !control.empty() && !local)
      return each;
  return "";
}

static Status checkCommand(const Arguments &a) {
  std::string command = a.command();
  size_t due = command == "load" || command == "swap" || command == "adapt" ? 2 : 1;
  if (a.words.size() == due)
    return {};
  return Status::usage(fmt::format("{} takes {}, {} given", command,
                                   command == "load"    ? "one plan"
                                   : command == "swap"  ? "one variant"
                                   : command == "adapt" ? "on, observe or off"
                                                        : "nothing",
                                   a.words.size() - 1));
}

std::chrono::milliseconds Arguments::patience() const {
  constexpr double kUsual = 5;
  return std::chrono::milliseconds(int64_t(1000 * (deadline < 0 ? kUsual : deadline == 0 ? kMaxDeadline : deadline)));
}

static Status checkTrace(const Arguments &a) {
  if (Status status = plan::keepsInputs(a.trace, {a.plan(), a.network, a.stage}, "--trace"); !status.ok())
    return status;
  std::error_code error;
  fs::path folder = fs::path(a.trace).parent_path();
  if (!folder.empty() && !fs::is_directory(folder, error))
    return Status::usage("--trace: there is no folder " + folder.string());
  return {};
}

/// Refuses options that have no meaning on a GPU, or are not supported there yet.
static Status checkDevice(const Arguments &a) {
  if (a.device != "cuda")
    return a.transport.empty() ? Status{} : Status::usage("--transport is for --device=cuda");
  if (!a.emulate.empty())
    return Status::usage("--emulate is for --device=host; on a GPU operations take their own time");
  if (!a.network.empty())
    return Status::usage("--network is for --device=host; between GPUs data take their own time");
  return a.adapts() ? Status::usage("--adapt and --replan are for --device=host yet") : Status{};
}

Status check(const Arguments &a) {
  if (std::isnan(a.deadline))
    return Status::usage("--deadline is not a number");
  if (!a.command().empty())
    return checkCommand(a);
  if (std::error_code error; !a.control.empty() && !a.local && !fs::exists(a.words.front(), error))
    return Status::usage(
        fmt::format("expected a plan, or load, swap, adapt, status or stop for --control, found '{}'", a.words[0]));
  if (a.words.size() > 1)
    return Status::usage(fmt::format("one plan is run, {} are given: {} is one too many", a.words.size(), a.words[1]));
  if (!a.adapt.empty() && (a.adapt == "off" || !runtime::Adaptation::modeOf(a.adapt)))
    return Status::usage(fmt::format("--adapt: expected on, observe or profile, found '{}'", a.adapt));
  if (!a.adapt.empty() && a.swapEvery > 0)
    return Status::usage("--adapt and --swap-every both say which variant a step runs: give one of them");
  if (!a.replan.empty() && a.swapEvery > 0)
    return Status::usage("--replan and --swap-every both say which plan a step runs: give one of them");
  if (Status status = checkDevice(a); !status.ok())
    return status;
  if (a.stage != runtime::kSynthetic && !a.emulate.empty())
    return Status::usage("--emulate is for --stage=synthetic; operations of any other stage take their own time");
  for (size_t i = 0; i != a.jobs.size(); ++i) {
    const std::string &job = a.jobs[i], name = job.substr(0, job.find('='));
    if (name.empty() || name.size() + 1 >= job.size())
      return Status::usage(fmt::format("--job: expected NAME=LIB.so or NAME=synthetic, found '{}'", job));
    for (size_t other = 0; other != i; ++other)
      if (a.jobs[other].starts_with(name + "="))
        return Status::usage(fmt::format("--job: job '{}' is given twice", name));
  }
  for (const auto &[option, value] : {std::pair("--rendezvous", a.rendezvous), std::pair("--idle", a.idle)})
    if (std::isnan(value))
      return Status::usage(fmt::format("{} is not a number", option));
  if (a.restart > 0 && !a.local)
    return Status::usage("--restart needs --local; torchrun, Slurm or Open MPI restart what they have started");
  if (a.restart > 0 && a.checkpoint.empty())
    return Status::usage("--restart needs --checkpoint, whose last state the run begins again from");
  return a.trace.empty() ? Status{} : checkTrace(a);
}

runtime::RunOptions optionsOf(const Arguments &a, plan::Time longest, runtime::RunOptions options) {
  options.steps = a.steps;
  options.stage = a.stage;
  options.pace = a.stage != runtime::kSynthetic || a.device != "host" ? runtime::Pace::Real
                 : a.emulate == "naive"                               ? runtime::Pace::Naive
                                                                      : runtime::Pace::Carry;
  options.deadline =
      a.deadline >= 0 ? plan::Time(a.deadline * 1e12) : std::max<plan::Time>(5'000'000'000'000, 2 * longest);
  options.idle = a.idle == 0 ? 0 : std::max(plan::Time(a.idle * 1e12), options.deadline);
  options.rendezvous = a.rendezvous >= 0 ? plan::Time(a.rendezvous * 1e12) : a.local ? options.deadline : kRendezvous;
  options.runsJobs = !a.noJobs;
  for (const std::string &job : a.jobs)
    options.jobs[job.substr(0, job.find('='))] = job.substr(job.find('=') + 1);
  options.trace = a.local && !a.trace.empty();
  options.checkpoint = a.checkpoint;
  options.every = a.every;
  options.evaluateEvery = a.evaluateEvery;
  options.measure = a.adapts();
  return options;
}

} // namespace pipec::piperun
