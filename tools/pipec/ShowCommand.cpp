// `pipec show`: one plan, two on one time scale, or a real run under its prediction, in the terminal or as SVG.
#include "compiler/driver/Files.h"
#include "compiler/driver/OrderFile.h"
#include "compiler/driver/Plans.h"
#include "compiler/driver/Traces.h"
#include "compiler/pictures/Html.h"
#include "compiler/pictures/Overlay.h"
#include "compiler/pictures/Svg.h"
#include "compiler/pictures/TextTimeline.h"
#include "runtime/plan/Units.h"
#include "tools/commandline/Standard.h"
#include "tools/pipec/Commands.h"
#include "tools/pipec/Inputs.h"
#include "tools/pipec/VerifyOrder.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sys/ioctl.h>
#include <unistd.h>

namespace pipec {

namespace {

constexpr int kLeastSvg = 300, kUsualSvg = 900;

/// Whether to use colour: as the options say; else only on a terminal that supports it, and not against NO_COLOR
/// (no-color.org: present and not empty).
bool useColour(const CommandOptions &options) {
  if (options.noColour)
    return false;
  if (options.colour != "auto")
    return options.colour == "always";
  const char *no = std::getenv("NO_COLOR"), *terminal = std::getenv("TERM");
  return isatty(STDOUT_FILENO) && !(no && *no) && !(terminal && std::strcmp(terminal, "dumb") == 0);
}

/// The width in columns: as the options or the environment say, as wide as the terminal is, or 80.
int columnsOf(const CommandOptions &options) {
  constexpr int kUsual = 80, kLeast = 20, kMost = 10'000;
  if (options.columns > 0)
    return options.columns;
  const char *columns = std::getenv("COLUMNS");
  char *end = nullptr;
  if (const long asked = columns ? std::strtol(columns, &end, 10) : 0;
      asked >= kLeast && asked <= kMost && *end == '\0')
    return int(asked);
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? std::max<int>(size.ws_col, kLeast) : kUsual;
}

/// For an order file, makes the plan of a spec with this order alone; for other files as obtain().
bool obtainShown(const CommandOptions &options, const std::string &path, Compiled &compiled, int &code) {
  if (kindOf(path) != FileKind::Order)
    return obtain(options, path, compiled, code);
  OrderFile order;
  if (!obtainOrder(options, path, emit::Communicator::PerEdge, order, code))
    return false;
  if (options.set.empty())
    say("note: an order says no times: F, B and W take {} each, transfers none; --set costs.forward=... "
        "says otherwise\n",
        kOrderUnit);
  return obtain(options, specOf(path, order), compiled, code);
}

/// Reads the scenario of --network, if there is one; false after printing what is wrong with it.
bool obtainNetwork(const CommandOptions &options, const Compiled &compiled, simulate::Scenario &scenario,
                   emit::Network &network, int &code) {
  if (options.network.empty())
    return true;
  if (!readNetwork(options, compiled.plan, scenario, code))
    return false;
  network = {&scenario, std::filesystem::path(options.network).filename().string()};
  return true;
}

/// The step that --step names, or the last complete one, over the variant that it ran; false if a step of the run
/// belongs to no variant.
bool comparedAsItRan(const CommandOptions &options, const plan::Plan &plan, const trace::Run &run,
                     const emit::Network &network, emit::Section &section) {
  std::vector<emit::RunStep> steps;
  if (!emit::overlay(plan, run, steps).ok())
    return false;
  for (auto each = steps.rbegin(); each != steps.rend(); ++each)
    if (options.step < 0 || options.step == each->step)
      if (emit::compared(plan.variants[each->variant], run, each->step, section, network).ok())
        return true;
  return false;
}

/// The variant that the options name, drawn alone or over a real run.
Status section(const CommandOptions &options, const Compiled &compiled, const emit::Network &network,
               emit::Section &section) {
  const size_t variant = size_t(std::max(options.variant, 0));
  if (variant >= compiled.plan.variants.size())
    return Status::usage(fmt::format("the plan has {} variant{}, the first is 0", compiled.plan.variants.size(),
                                     compiled.plan.variants.size() == 1 ? "" : "s"));
  if (options.trace.empty())
    return emit::predicted(compiled.plan.variants[variant], std::max(0LL, options.step), section, network);
  trace::Run run;
  Status status = readTraces(options.trace, run);
  keepFirstReplica(run, compiled.plan.degree());
  if (status.ok())
    status = haveAllRanks(run.events, compiled.plan);
  if (!status.ok())
    return status;
  if (options.variant < 0 && compiled.plan.variants.size() > 1 &&
      comparedAsItRan(options, compiled.plan, run, network, section))
    return {};
  return emit::compared(compiled.plan.variants[variant], run, options.step, section, network);
}

Status usable(const CommandOptions &options) {
  if (!options.trace.empty() && !options.second.empty())
    return Status::usage("--trace puts a run under one plan; leave the second away");
  if (options.step >= 0 && options.trace.empty() && options.network.empty())
    return Status::usage("--step is of the run of --trace, or of one under --network");
  if (!options.trace.empty() && options.variant == kEvaluate)
    return Status::usage("--trace shows steps of a run, evaluations are in no trace: leave --variant evaluate away");
  if (options.emit == "html" && !options.second.empty())
    return Status::usage("a page shows one plan; compile two as variants of one spec to have both in its menu");
  if (options.emit == "html" && (options.step >= 0 || options.variant != -1))
    return Status::usage("a page has every step and variant in its menus; leave --step and --variant away");
  if (options.emit == "svg" && options.columns > 0 && options.columns < kLeastSvg)
    return Status::usage(fmt::format("an SVG figure is at least {} pixels wide", kLeastSvg));
  return {};
}

/// The file to blame: the trace if it belongs to another plan, the scenario if it cuts what the plan needs.
const std::string &fileOf(const CommandOptions &options, const Status &status, const std::string &path) {
  return status.code == Code::Input && !options.trace.empty()     ? options.trace
         : status.code == Code::Check && !options.network.empty() ? options.network
                                                                  : path;
}

} // namespace

int showSvg(const CommandOptions &options, const Compiled &compiled) {
  if (const size_t variants = compiled.plan.variants.size(); variants > 1)
    say("note: the figure is of the first of {} variants; pipec show has --variant\n", variants);
  emit::Picture picture;
  if (Status status = section(options, compiled, {}, picture.sections.emplace_back()); !status.ok())
    return fail(options, options.input, status);
  return write(options, emit::svg(picture, {options.columns > 0 ? options.columns : kUsualSvg}));
}

int showPage(const CommandOptions &options, const Compiled &compiled) {
  emit::PlanReport figures;
  if (Status status = figuresOf(compiled, figures); !status.ok())
    return fail(options, options.input, status);
  trace::Run run;
  if (!options.trace.empty()) {
    const Status status = readTraces(options.trace, run);
    keepFirstReplica(run, compiled.plan.degree());
    if (!status.ok())
      return fail(options, options.trace, status);
    if (const std::string missing = missingRanks(run.events, compiled.plan); !missing.empty())
      say("note: the trace has nothing of {}\n", missing);
  }
  simulate::Scenario scenario;
  emit::Network network;
  int code = 0;
  if (!obtainNetwork(options, compiled, scenario, network, code))
    return code;
  std::string text, note;
  if (Status status = emit::html(compiled.plan, figures, run, text, note, network); !status.ok())
    return fail(options, fileOf(options, status, options.input), status);
  if (!note.empty())
    say("note: {}\n", note);
  return write(options, text);
}

int showCommand(const CommandOptions &options) {
  if (Status status = usable(options); !status.ok())
    return fail(options, options.input, status);
  if (options.emit == "html") {
    Compiled compiled;
    int code = 0;
    return obtainShown(options, options.input, compiled, code) ? showPage(options, compiled) : code;
  }
  std::vector<std::string> paths{options.input};
  if (!options.second.empty())
    paths.push_back(options.second);
  emit::Picture picture;
  for (const std::string &path : paths) {
    Compiled compiled;
    int code = 0;
    if (!obtainShown(options, path, compiled, code))
      return code;
    if (options.variant == kEvaluate)
      if (Status status = keepEvaluation(compiled.plan); !status.ok())
        return fail(options, path, status);
    simulate::Scenario scenario;
    emit::Network network;
    if (!obtainNetwork(options, compiled, scenario, network, code))
      return code;
    emit::Section &drawn = picture.sections.emplace_back();
    if (Status status = section(options, compiled, network, drawn); !status.ok())
      return fail(options, fileOf(options, status, path), status);
    if (options.emit != "svg") // a figure has the schedule's name instead
      drawn.title = units::escaped(compiled.plan.variants.size() > 1 ? fmt::format("{}, {}", nameOf(path), drawn.title)
                                                                     : nameOf(path));
  }
  if (options.emit == "svg")
    return write(options, emit::svg(picture, {options.columns > 0 ? options.columns : kUsualSvg}));
  return write(options, emit::timeline(picture, {columnsOf(options), useColour(options)}));
}

} // namespace pipec
