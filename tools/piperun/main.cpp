// piperun: runs a plan (design, section 7). Parses the command line, loads and proves the plan, hands it to the
// launcher and prints what came out.
#include "runtime/plan/Load.h"
#include "runtime/simulate/Simulate.h"
#include "runtime/stage/MakeStage.h"
#include "tools/piperun/Output.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <sodium.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

namespace {

using namespace pipec;

constexpr double kMaxDeadline = 1e6; // seconds
constexpr int64_t kMaxSteps = 1'000'000;

struct Arguments {
  std::string plan;
  bool local = false;
  int64_t steps = 10;
  std::string device = "host";
  std::string stage = "synthetic";
  std::string emulate; // empty: not given
  std::string trace;
  double deadline = -1; // < 0: not given
  bool verbose = false;
  bool quiet = false;
  bool json = false;
};

void define(CLI::App &app, Arguments &a) {
  app.set_version_flag("--version", "piperun " PIPEC_VERSION);
  app.add_option("PLAN", a.plan, "The plan to run, as pipec compile writes it")->required();
  app.add_flag("--local", a.local, "Start all processes on this machine, one a rank");
  app.add_option("--steps", a.steps, "Training steps to run")
      ->check(CLI::Range(int64_t(1), kMaxSteps))
      ->capture_default_str();
  app.add_option("--device", a.device, "host or cuda")->check(CLI::IsMember({"host", "cuda"}))->capture_default_str();
  app.add_option("--stage", a.stage,
                 "synthetic: the plan's costs as real waits; torch; or a library LIB.so (runtime/stage/pipec_stage.h)")
      ->capture_default_str();
  app.add_option(
         "--emulate", a.emulate,
         "How synthetic operations keep time. carry: each ends where the previous deadline says, which shows that "
         "the order is right; naive: each counts from when it starts, which shows what the runtime costs")
      ->check(CLI::IsMember({"carry", "naive"}))
      ->default_str("carry");
  app.add_option("--trace", a.trace, "Write a trace of all ranks to this file (ui.perfetto.dev opens it)");
  app.add_option("--deadline", a.deadline,
                 "Seconds that any wait may last; 0: no limit; default: the larger of 5 s and twice the predicted step")
      ->check(CLI::Range(0.0, kMaxDeadline));
  auto *verbose = app.add_flag("-v,--verbose", a.verbose, "Say what happens, with each rank's process id");
  app.add_flag("-q,--quiet", a.quiet, "Say nothing but errors")->excludes(verbose);
  app.add_flag("--json", a.json, "Print one JSON object on standard output and nothing else");
  app.footer(
      "Example:\n  pipec compile specs/1f1b.yaml -o 1f1b.pipe\n  piperun 1f1b.pipe --local --steps 20 --trace "
      "1f1b.json\n\n"
      "Exit codes: 0 done, 1 the plan is damaged, 2 the usage is wrong, 3 the plan must not run, 4 the run failed.");
}

/// What the command line asks for and this build does not have.
Status refuse(const Arguments &a) {
  if (a.device == "cuda")
    return Status::run("CUDA is not built into this piperun; use --device=host");
  if (a.stage != runtime::kSynthetic && !a.emulate.empty())
    return Status::usage("--emulate is for --stage=synthetic; operations of any other stage take their own time");
  if (std::isnan(a.deadline))
    return Status::usage("--deadline is not a number");
  std::error_code error;
  if (!a.trace.empty()) {
    if (std::filesystem::equivalent(a.trace, a.plan, error))
      return Status::usage("the trace would overwrite its plan; name another file with --trace");
    std::filesystem::path folder = std::filesystem::path(a.trace).parent_path();
    if (!folder.empty() && !std::filesystem::is_directory(folder, error))
      return Status::usage("--trace: there is no folder " + folder.string());
  }
  if (!a.local)
    return Status::usage("only runs on one machine are supported yet; add --local");
  return {};
}

Status load(const std::string &path, plan::Plan &plan, std::array<uint8_t, 32> &hash) {
  std::vector<uint8_t> bytes;
  Status status = plan::readFile(path, bytes);
  if (status.ok())
    status = plan::decode(bytes, plan);
  if (status.ok())
    status = plan::verify(plan);
  crypto_generichash(hash.data(), hash.size(), bytes.data(), bytes.size(), nullptr, 0);
  return status;
}

Status run(const Arguments &a, piperun::Outcome &outcome) {
  Status status = refuse(a);
  if (!status.ok())
    return status;
  plan::Plan plan;
  std::array<uint8_t, 32> hash;
  status = load(a.plan, plan, hash);
  if (!status.ok())
    return status;
  status = runtime::checkStage(a.stage, plan);
  if (!status.ok())
    return status;
  const plan::Variant &variant = plan.variants.front();
  rlimit files{};
  constexpr rlim_t kOwn = 32; // of the launcher itself
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && rlim_t(plan.ranks()) + kOwn > files.rlim_cur)
    return Status::run(fmt::format("{} local ranks need as many open files, the limit here is {} (ulimit -n)",
                                   plan.ranks(), files.rlim_cur));

  // The proof of every variant (P36, P37), as `pipec verify` gives it; then the prediction.
  for (const plan::Variant &each : plan.variants) {
    simulate::Result proof;
    status = simulate::prove(each, proof);
    if (!status.ok())
      return status;
  }
  outcome.steps = a.steps;
  outcome.certificate = variant.certificate;
  status = runtime::simulatedSteps(variant, a.steps, outcome.simulated);
  if (!status.ok())
    return status;

  runtime::RunOptions options;
  options.steps = a.steps;
  options.stage = outcome.stage = a.stage;
  options.pace = outcome.pace = a.stage != runtime::kSynthetic ? runtime::Pace::Real
                                : a.emulate == "naive"         ? runtime::Pace::Naive
                                                               : runtime::Pace::Carry;
  options.trace = !a.trace.empty();
  plan::Time step = std::max(*std::max_element(outcome.simulated.begin(), outcome.simulated.end()), plan::Time(0));
  options.deadline =
      a.deadline >= 0 ? plan::Time(a.deadline * 1e12) : std::max<plan::Time>(5'000'000'000'000, 2 * step);
  auto started = [&](const runtime::LocalResult &) { spdlog::info("all {} ranks have met", plan.ranks()); };
  status = runtime::runLocal(plan, hash, options, started, outcome.result);
  if (!status.ok())
    return status;
  outcome.measured = runtime::measuredSteps(outcome.result.ranks, a.steps);
  if (!options.trace)
    return status;
  std::vector<trace::Event> events;
  for (const runtime::RankReport &rank : outcome.result.ranks)
    events.insert(events.end(), rank.events.begin(), rank.events.end());
  return trace::write(a.trace, trace::toJson(variant, events));
}

int fail(const Status &status, const std::string &plan, bool json) {
  if (json)
    fmt::print("{}\n", piperun::failureJson(status, plan));
  bool ofFile = status.code == Code::Input || status.code == Code::Check;
  bool named = status.message.starts_with(plan + ": "); // by who read the file
  fmt::print(stderr, "{}error: {}\n", !ofFile ? "piperun: " : named ? "" : plan + ": ", status.message);
  return int(status.code);
}

} // namespace

int main(int argc, char **argv) {
  std::signal(SIGXFSZ, SIG_IGN); // a file too large is an error of its write
  Arguments arguments;
  CLI::App app("Runs a pipec plan: one process for each rank.", "piperun");
  define(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success &asked) { // --help, --version
    return app.exit(asked);
  } catch (const CLI::ParseError &error) {
    bool json = std::any_of(argv, argv + argc, [](const char *arg) { return std::string_view(arg) == "--json"; });
    return fail(Status::usage(std::string(error.what()) + "; see piperun --help"), "", json);
  }
  spdlog::set_default_logger(spdlog::stderr_color_mt("piperun"));
  spdlog::set_pattern("%n: %v");
  spdlog::set_level(arguments.verbose ? spdlog::level::info
                    : arguments.quiet ? spdlog::level::err
                                      : spdlog::level::warn);
  piperun::Outcome outcome;
  Status status;
  try {
    status = run(arguments, outcome);
  } catch (const std::exception &error) { // out of memory, mostly
    status = Status::run(error.what());
  }
  if (!status.ok())
    return fail(status, arguments.plan, arguments.json);
  if (arguments.json)
    fmt::print("{}\n", piperun::toJson(outcome));
  else if (!arguments.quiet)
    fmt::print("{}", piperun::toText(outcome));
  if (std::fflush(stdout) != 0 || std::ferror(stdout))
    return fail(Status::run("cannot write to standard output"), arguments.plan, false);
  return 0;
}
