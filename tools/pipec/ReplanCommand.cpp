// `pipec replan`: asks a run for its measurements, plans for them, and offers the run the plans that pay.
#include "compiler/driver/Files.h"
#include "compiler/driver/Plans.h"
#include "compiler/replan/Round.h"
#include "runtime/adapt/Changes.h"
#include "runtime/device/Clock.h"
#include "runtime/launch/Control.h"
#include "runtime/launch/Prepare.h"
#include "runtime/plan/Load.h"
#include "runtime/plan/Text.h"
#include "runtime/plan/Units.h"
#include "runtime/plan/Write.h"
#include "tools/commandline/Standard.h"
#include "tools/pipec/Commands.h"
#include "tools/pipec/Inputs.h"
#include "tools/pipec/SearchRows.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <thread>
#include <unistd.h>

namespace pipec {

namespace {

using runtime::Message;
namespace messages = runtime::messages;

/// How long a run may take to answer: it may be busy or stopped for a while.
constexpr std::chrono::minutes kPatience{1};

/// A run, as its control socket describes it.
class Run {
public:
  explicit Run(std::string path) : path(std::move(path)) {}

  /// Asks for the run's status. Code::Run if there is no run (any more), Code::Input if it does not adapt.
  Status look() {
    Message answer;
    if (Status status = runtime::askControl(path, messages::encode(messages::AskStatus{}), answer, kPatience);
        !status.ok())
      return status;
    adapt = answer.value("adapt", Message());
    cut = answer.value("cut", Message());
    keepsCut = answer.value("keeps_cut", "");
    return adapt.is_null() ? Status::input("the run does not adapt: start it with --adapt") : Status();
  }

  /// Asks for the plans with variants that may be chosen, if they have changed since the last time.
  Status plans() {
    Message now{adapt.at("candidates"), cut};
    if (now == known)
      return {};
    Message answer;
    Status status = runtime::askControl(path, messages::encode(messages::AskPlan{}), answer, kPatience);
    candidates.clear();
    all.clear();
    for (const Message &each : status.ok() ? answer.at("plans") : Message::array()) {
      all.push_back(std::make_unique<plan::Plan>());
      status = read(each.at("plan"), *all.back(), each.at("name").get<std::string>());
      if (!status.ok())
        break;
    }
    if (status.ok() && all.empty())
      status = Status::run("the run has no plan for the layers as they are cut");
    if (status.ok())
      known = std::move(now);
    return status;
  }

  spec::Measured measured() const {
    spec::Measured made;
    const Message &estimates = adapt.at("estimates");
    for (const Message &each : estimates.at("links"))
      made.links[{each.at("from").get<int32_t>(), each.at("to").get<int32_t>()}] = {
          std::llround(each.at("latency_us").get<double>() * 1e6), each.at("bandwidth").get<int64_t>()};
    for (const Message &each : estimates.at("stages"))
      made.percent[each.at("rank").get<int32_t>()] = std::clamp<int64_t>(each.at("percent").get<int64_t>(), 1, 100'000);
    return made;
  }

  /// Offers a plan: the run reads its file and checks it. `recuts`: the plan is to run at once, on stages of its own
  /// cut.
  Status offer(const Replanned &plan, bool recuts) const {
    std::error_code error;
    std::string folder = (std::filesystem::temp_directory_path(error) / "pipec-replan-XXXXXX").string();
    if (error || !::mkdtemp(folder.data()))
      return Status::run("no folder for a plan");
    const std::string file = folder + "/new.pipe";
    Message answer;
    Status status = plan::writeFile(file, plan.bytes);
    if (status.ok())
      status =
          runtime::askControl(path, messages::encode(messages::LoadFor{file, plan.name, recuts}), answer, kPatience);
    std::filesystem::remove_all(folder, error);
    return status;
  }

  const Message &estimates() const { return adapt.at("estimates"); }

  /// Why its layers cannot move; empty: they can.
  const std::string &whyKeepsCut() const { return keepsCut; }
  /// The plan with the present stages.
  const plan::Plan &own() const { return *all.front(); }
  std::vector<Candidate> candidates;

private:
  Status read(const Message &bytes, plan::Plan &plan, const std::string &name) {
    Status status = plan::decode(bytes.get_binary(), plan);
    if (status.ok())
      status = plan::verify(plan);
    for (size_t v = 0; status.ok() && v != plan.variants.size(); ++v)
      candidates.push_back(
          {plan.variants[v].name.empty() ? fmt::format("{}, variant {}", name, v) : plan.variants[v].name,
           &plan.variants[v]});
    return status;
  }

  const std::string path;
  Message adapt, cut, known;
  std::string keepsCut;
  std::vector<std::unique_ptr<plan::Plan>> all;
};

std::string textOf(const Round &round, size_t old, const std::optional<std::string> &loaded) {
  std::string text;
  for (size_t i = 0; i != round.predicted.size(); ++i)
    text += fmt::format("  {:<4} {:<28} {:>12}\n", i < old ? "has" : "new", units::escaped(round.predicted[i].first),
                        plan::timeText(round.predicted[i].second));
  const double gain = loaded == round.recut.name ? *round.cutGain : round.gain;
  text += loaded ? fmt::format("loaded {}: a step {:.1f} % shorter\n", *loaded, 100 * gain)
                 : fmt::format("nothing loaded: the best would gain {:.1f} %\n", 100 * gain);
  if (round.cutGain)
    text += fmt::format("layers cut for what was measured would gain {:.1f} %\n", 100 * *round.cutGain);
  return text;
}

nlohmann::ordered_json jsonOf(const Run &run, const Round &round, const std::optional<std::string> &loaded) {
  nlohmann::ordered_json candidates = nlohmann::ordered_json::array();
  for (const auto &[name, time] : round.predicted)
    candidates.push_back({{"name", name}, {"predicted_ms", milliseconds(time)}});
  nlohmann::ordered_json made = {{"estimates", run.estimates()}, {"candidates", candidates}};
  made["loaded"] = loaded ? nlohmann::ordered_json(*loaded) : nlohmann::ordered_json();
  made["gain"] = round.gain;
  made["cut_gain"] = round.cutGain ? nlohmann::ordered_json(*round.cutGain) : nlohmann::ordered_json();
  return made;
}

/// Prints what is wrong with the run, with --json as JSON too. Returns the exit code.
int failRun(const CommandOptions &options, const Status &status) {
  say("pipec replan: error: {}\n", status.message);
  if (options.json)
    printFailure(status.message, int(status.code));
  return int(status.code);
}

int check(const CommandOptions &options) {
  plan::Plan plan;
  std::vector<uint8_t> bytes;
  Failure failure;
  if (Status status = loadPlan(options.check, plan, bytes); !status.ok())
    return fail(options, options.check, status);
  if (!checkReplan({options.input, options.set}, plan, failure))
    return fail(options, failure);
  if (options.json)
    fmt::print("{}", jsonText({{"file", nameOf(options.input)}, {"plan", nameOf(options.check)}}));
  else
    fmt::print("{}: plans of it may run in place of {}\n", units::escaped(nameOf(options.input)),
               units::escaped(nameOf(options.check)));
  return 0;
}

/// Whether a run that did not answer has ended. Then planning beside it ends well.
bool hasEnded(const CommandOptions &options, Run &run) { return !options.once && !run.look().ok(); }

/// Offers the plan that pays and returns its name. Layers move only if two rounds agree, since moving them takes a
/// while. `wished`: the cut that the last round would have chosen.
std::optional<std::string> load(const CommandOptions &options, Run &run, const Round &round, double least,
                                std::vector<int32_t> &wished) {
  const bool cutPays = options.cut && round.cutGain && *round.cutGain > least;
  const std::vector<int32_t> cut = cutPays ? round.recut.plan.variants.front().cut : std::vector<int32_t>();
  const bool recuts = cutPays && (options.once || wished == cut);
  wished = cut;
  if ((!round.pays && !recuts) || options.dryRun)
    return std::nullopt;
  const Replanned &plan = recuts ? round.recut : round.best;
  if (const Status status = run.offer(plan, recuts); !status.ok()) {
    if (!hasEnded(options, run))
      say("pipec replan: {} was not loaded: {}\n", plan.name, status.message);
    return std::nullopt;
  }
  return plan.name;
}

/// Runs one round. Returns the exit code if it fails.
int oneRound(const CommandOptions &options, Run &run, double least, std::vector<int32_t> &wished) {
  if (const Status status = run.plans(); !status.ok())
    return hasEnded(options, run) ? 0 : failRun(options, status);
  Round round;
  Failure failure;
  if (!replanOnce({options.input, options.set}, run.own(), run.candidates, run.measured(), least, true, round, failure))
    return fail(options, failure);
  const std::optional<std::string> loaded = load(options, run, round, least, wished);
  fmt::print("{}", options.json ? jsonText(jsonOf(run, round, loaded)) : textOf(round, run.candidates.size(), loaded));
  std::fflush(stdout);
  return 0;
}

/// Reads "2%" as 0.02.
Status readGain(const std::string &text, double &gain) {
  char *end = nullptr;
  gain = std::strtod(text.c_str(), &end) / 100;
  if (end == text.c_str() || std::string_view(end) != "%" || !(gain >= 0 && gain <= 1))
    return Status::usage(
        fmt::format("--gain: expected a percentage from 0% to 100%, such as 2%, found {}", units::quoted(text)));
  return {};
}

Status readEvery(const std::string &text, std::chrono::milliseconds &every) {
  const units::Quantity read = units::parseDuration(text);
  every = std::chrono::milliseconds(read.value / 1'000'000'000);
  if (!read.ok())
    return Status::usage("--every: " + read.error);
  return every.count() < 100 ? Status::usage("--every: expected 100ms or more, found " + units::quoted(text))
                             : Status();
}

adapt::Conditions conditionsOf(const spec::Measured &measured) {
  adapt::Conditions made;
  for (const auto &[ends, link] : measured.links)
    made.links[ends] = {link.latency, link.bandwidth};
  made.percent = measured.percent;
  return made;
}

int beside(const CommandOptions &options, double least, std::chrono::milliseconds every) {
  constexpr std::chrono::milliseconds kLooks{500};
  Run run(options.control);
  Status status = run.look();
  if (status.ok() && options.cut && !run.whyKeepsCut().empty())
    status = Status::input("--cut: " + run.whyKeepsCut());
  if (!status.ok())
    return failRun(options, status);
  runtime::lowerPriority(); // the run has the processors first
  bool isFirst = true;
  std::vector<int32_t> wished;
  const auto now = [] { return plan::Time(runtime::Clock::monotonic()) * 1000; };
  adapt::Rounds rounds(plan::Time(every.count()) * 1'000'000'000);
  for (; status.ok(); status = run.look()) {
    const plan::Time begin = now();
    const adapt::Conditions measured = conditionsOf(run.measured());
    if (options.once || rounds.due(begin, measured)) {
      rounds.begin(begin, measured);
      const int code = oneRound(options, run, least, wished);
      if (options.once || (isFirst && code == int(Code::Input)))
        return code;
      isFirst = false;
      rounds.end(now(), now() - begin);
    }
    std::this_thread::sleep_for(std::min(every, kLooks));
  }
  return 0; // the run has ended
}

} // namespace

int replanCommand(const CommandOptions &options) {
  if (Status status = expectKind(options.input, "a spec", {FileKind::Spec}); !status.ok())
    return fail(options, options.input, status);
  if (!options.check.empty())
    return check(options);
  double least = 0;
  std::chrono::milliseconds every{};
  Status status = readGain(options.gain, least);
  if (status.ok())
    status = readEvery(options.every, every);
  if (status.ok() && options.control.empty())
    status = Status::usage("expected --control PATH, the socket of a run, or --check PLAN");
  if (!status.ok())
    return failRun(options, status);
  try {
    return beside(options, least, every);
  } catch (const nlohmann::json::exception &error) {
    return failRun(options, Status::run(fmt::format("{}: what answers there is no run of this release: {}",
                                                    options.control, error.what())));
  }
}

} // namespace pipec
