#include "tools/pipec/Commands.h"

#include "compiler/compare/Balances.h"
#include "compiler/driver/Compile.h"
#include "compiler/driver/Files.h"
#include "compiler/driver/Plans.h"
#include "compiler/emit/BoundsHold.h"
#include "compiler/emit/ScheduleReport.h"
#include "compiler/pictures/Perfetto.h"
#include "compiler/schedule/bounds/Bounds.h"
#include "compiler/schedule/catalogue/Catalogue.h"
#include "compiler/torch/TorchCsv.h"
#include "runtime/plan/Disassemble.h"
#include "runtime/plan/Format.h"
#include "runtime/plan/Load.h"
#include "runtime/plan/Text.h"
#include "runtime/plan/Units.h"
#include "runtime/plan/Write.h"
#include "runtime/simulate/Simulate.h"
#include "tools/commandline/Standard.h"
#include "tools/pipec/AdaptReport.h"
#include "tools/pipec/Inputs.h"
#include "tools/pipec/ProgressLine.h"
#include "tools/pipec/SearchRows.h"
#include "tools/pipec/Stopping.h"
#include "tools/pipec/VerifyOrder.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>

namespace pipec {

namespace {

/// "specs/x.yaml" → "specs/x.pipe"
std::string besideSpec(const std::string &path) {
  size_t slash = path.find_last_of('/');
  size_t dot = path.find_last_of('.');
  bool hasSuffix = dot != std::string::npos && (slash == std::string::npos || dot > slash + 1);
  return (hasSuffix ? path.substr(0, dot) : path) + ".pipe";
}

bool isTorchCsv(const CommandOptions &options) { return options.emit.starts_with("torch-csv"); }

Status checkTorch(const CommandOptions &options) {
  schedule::TorchRelease release;
  if (options.torch.empty() || (isTorchCsv(options) && emit::findRelease(options.torch, release)))
    return {};
  return Status::usage(isTorchCsv(options) ? fmt::format("unknown release '{}' of PyTorch, expected one from {}",
                                                         options.torch, emit::kReleases)
                                           : "--torch is for --emit=torch-csv and --emit=torch-csv-compute");
}

int writeTorchCsv(const CommandOptions &options, const Compiled &compiled) {
  const plan::Variant &variant = compiled.plan.variants.front();
  const auto format =
      options.emit == "torch-csv" ? schedule::OrderFormat::ComputeComms : schedule::OrderFormat::ComputeOnly;
  auto release = schedule::TorchRelease::V2_15;
  if (!options.torch.empty())
    (void)emit::findRelease(options.torch, release);
  schedule::OrderCells cells;
  if (Status status = emit::torchCells(variant, format, release, cells, &compiled.walks.front()); !status.ok())
    return fail(options, options.input, status);
  for (const std::string &note : emit::torchNotes(variant, format, release))
    say("note: {}\n", note);
  if (compiled.plan.variants.size() > 1)
    say("note: the file is of the first of {} variants\n", compiled.plan.variants.size());
  return write(options, emit::torchCsv(cells));
}

} // namespace

void printFailure(const std::string &message, int code) {
  nlohmann::ordered_json object = {
      {"error", message}, {"code", code}, {"file", nullptr}, {"line", nullptr}, {"column", nullptr}};
  fmt::print("{}", jsonText(object));
}

int compileCommand(const CommandOptions &options) {
  Compiled compiled;
  Failure failure;
  Stage until = options.emit == "pipe" ? Stage::Design : options.emit == "programs" ? Stage::Programs : Stage::Plan;
  if (options.json && options.emit != "plan")
    return fail(options, options.input,
                Status::usage(fmt::format("--json reports on a plan; --emit={} prints something else", options.emit)));
  if (Status status = expectKind(options.input, "a spec", {FileKind::Spec}); !status.ok())
    return fail(options, options.input, status);
  if (Status status = checkTorch(options); !status.ok())
    return fail(options, options.input, status);
  compiled.keepVisits = isTorchCsv(options);
  compiled.encodes = !isTorchCsv(options);
  const bool isFile = options.emit == "plan"; // other kinds go to standard output if no name is given
  if (isFile && options.output.empty() && options.input == kStandard)
    return fail(options, options.input,
                Status::usage("standard input has no name to write a plan beside: say where with -o, or -o - for "
                              "standard output"));
  if (options.json && options.output == kStandard)
    return fail(options, options.input, Status::usage("--json and -o - both write to standard output"));
  const std::string path = isFile && options.output.empty() ? besideSpec(options.input) : options.output;
  compiled.output = path;
  int64_t time = 0;
  if (Status status = readTime(options.time, time); !status.ok())
    return fail(options, options.input, status);
  const Stopping stopping(time, /*byInterrupt=*/false);
  compiled.stop = stopping.token();
  {
    ProgressLine progress(!options.json, Shown::IfLong);
    compiled.says = std::ref(progress);
    if (!compile(options.input, options.set, until, compiled, failure))
      return fail(options, failure);
  }
  if (compiled.isCutShort && options.emit != "plan")
    say("note: stopped by --time: more time may find a better order\n");
  if (until != Stage::Plan)
    return write(options, compiled.text);
  if (isTorchCsv(options))
    return writeTorchCsv(options, compiled);
  if (options.emit == "perfetto") {
    std::string json;
    if (Status status = emit::perfetto(compiled.plan.variants.front(), options.tracedSteps, json); !status.ok())
      return fail(options, options.input, status);
    return write(options, json);
  }
  if (options.emit == "svg")
    return showSvg(options, compiled);
  if (options.emit == "html")
    return showPage(options, compiled);
  emit::PlanReport report;
  if (Status status = figuresOf(compiled, report); !status.ok())
    return fail(options, options.input, status);
  if (compiled.isCutShort)
    report.stoppedBy = stopping.by();
  if (const int code = write(options, path, compiled.bytes); code != 0)
    return code;
  if (options.json)
    fmt::print("{}", emit::reportJson(report));
  say("{}wrote {}\n", emit::reportText(report), path == kStandard ? std::string("<stdout>") : units::escaped(path));
  return 0;
}

namespace {

/// Adds bounds for variants without a memory limit, with their own peak memory as the limit (design, section 5). Not
/// for a plan: it has the bounds of its spec, but not the costs, links and stages that other bounds need.
void addBoundsAtOwnMemory(const Compiled &compiled, emit::PlanReport &report) {
  for (size_t v = 0; v != compiled.problems.size(); ++v) {
    schedule::Problem problem = compiled.problems[v];
    emit::Report &own = report.variants[v];
    if (own.degree > 1 || own.balance.shards > 1)
      continue; // these bounds do not cover updates of replicas beside passes
    const plan::Bytes peak = *std::max_element(own.peak.begin(), own.peak.end());
    if (problem.memoryLimit != 0 || peak == 0)
      continue;
    problem.memoryLimit = peak;
    // Without shards and replicas a pass takes as long as its problem says; queues and buffers only add time.
    const schedule::LeastTimes least = schedule::leastTimes(schedule::LeastProblem::proven(std::move(problem)));
    own.atOwnMemory = {least.makespan, least.span};
  }
}

/// Adds other ways to balance shards. Not for a plan: it does not say what its layers consist of.
bool addBalances(const CommandOptions &options, const Compiled &compiled, emit::PlanReport &report, int &code) {
  if (compiled.problems.empty() || report.variants.front().balance.shards == 1)
    return true;
  std::vector<spec::Spec> specs;
  Failure failure;
  if (!readSpecs(options.input, options.set, specs, failure)) {
    code = fail(options, failure);
    return false;
  }
  for (size_t v = 0, s = 0; v != report.variants.size(); ++v, ++s) {
    while (s + 1 < specs.size() && specs[s].variantName != report.variants[v].variant)
      ++s; // a variant that did not fit was left out
    compareBalances(specs[s], compiled.plan.variants[v], compiled.problems[v], report.variants[v].balance);
  }
  return true;
}

} // namespace

int reportCommand(const CommandOptions &options) {
  Compiled compiled;
  int code = 0;
  int64_t time = 0;
  if (Status status = readTime(options.time, time); !status.ok())
    return fail(options, options.input, status);
  const Stopping stopping(time, /*byInterrupt=*/false);
  compiled.stop = stopping.token();
  if (!obtain(options, options.input, compiled, code))
    return code;
  emit::PlanReport report;
  if (Status status = figuresOf(compiled, report); !status.ok())
    return fail(options, options.input, status);
  if (compiled.isCutShort)
    report.stoppedBy = stopping.by();
  addBoundsAtOwnMemory(compiled, report);
  if (!addBalances(options, compiled, report, code))
    return code;
  if (Status status = emit::checkBounds(report); !status.ok())
    return fail(options, options.input, status);
  Status found;
  {
    ProgressLine progress(!options.json, Shown::IfLong);
    progress("looking for transfer buffers that bind");
    found = emit::addRings(compiled.plan, report);
    if (found.ok() && options.json)
      found = emit::addEvaluations(compiled.plan, report);
  }
  if (!found.ok())
    return fail(options, options.input, found);
  if (!options.network.empty()) {
    simulate::Scenario network;
    if (!readNetwork(options, compiled.plan, network, code))
      return code;
    if (Status status = emit::addNetwork(compiled.plan, network, options.steps, report); !status.ok())
      return fail(options, options.network, status);
    if (options.adapt)
      return reportAdapted(options, compiled.plan, network, report);
  }
  fmt::print("{}", options.json ? emit::reportJson(report) : emit::reportText(report));
  return 0;
}

int schedulesCommand(const CommandOptions &options) {
  const schedule::Entry *chosen = options.name.empty() ? nullptr : schedule::find(options.name);
  if (!options.name.empty() && !chosen) {
    std::string near(schedule::nearest(options.name));
    return fail(options, "schedules",
                Status::input(fmt::format("unknown schedule '{}'{}", options.name,
                                          near.empty() ? "" : fmt::format(", did you mean '{}'?", near))));
  }
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const schedule::Entry &entry : schedule::catalogue()) {
    if (chosen && &entry != chosen)
      continue;
    std::string aliases;
    for (std::string_view alias : entry.aliases)
      aliases += (aliases.empty() ? "" : ", ") + std::string(alias);
    std::string backward = entry.allowsFused && entry.allowsSplit ? "fused or split"
                           : entry.allowsFused                    ? "fused"
                                                                  : "split";
    nlohmann::ordered_json parameters = nlohmann::ordered_json::object();
    for (const schedule::Parameter &parameter : entry.parameters)
      parameters[std::string(parameter.name)] = parameter.meaning;
    if (options.json) {
      list.push_back({{"name", entry.name},
                      {"aliases", entry.aliases},
                      {"backward", backward},
                      {"placement", entry.placement},
                      {"stages_per_rank", entry.stagesPerRank},
                      {"parameters", parameters},
                      {"bubble", entry.bubble},
                      {"memory", entry.memory},
                      {"source", entry.source}});
      continue;
    }
    fmt::print("{}{}\n  bubble    {}\n  memory    {}\n  backward  {}\n  placement {}\n  source    {}\n", entry.name,
               aliases.empty() ? "" : " (" + aliases + ")", entry.bubble, entry.memory, backward, entry.placement,
               entry.source);
    for (const schedule::Parameter &parameter : entry.parameters)
      fmt::print("  {:<9} {}\n", parameter.name, parameter.meaning);
  }
  if (options.json)
    fmt::print("{}", jsonText(list));
  return 0;
}

int verifyCommand(const CommandOptions &options) {
  if (kindOf(options.input) == FileKind::Order)
    return verifyOrderCommand(options);
  if (Status status = expectKind(options.input, "a plan or an order file", {FileKind::Plan, FileKind::Order});
      !status.ok())
    return fail(options, options.input, status);
  const bool inOrder = options.communicator == "launch_order";
  if (!options.communicator.empty() && !inOrder)
    return fail(options, options.input,
                Status::usage("--communicator: a plan says its own; launch_order asks whether it ends under that too"));
  plan::Plan plan;
  Status status = loadChecked(options.input, plan);
  std::vector<plan::Time> spans;
  for (size_t v = 0; inOrder && status.ok() && v != plan.variants.size(); ++v) {
    simulate::Options launches;
    launches.launch = simulate::Launch::InOrder;
    simulate::Result result;
    status = simulate::span(plan.variants[v], spans.emplace_back(), result, launches);
    if (!status.ok())
      status.message = fmt::format("in launch order {}", status.message);
  }
  if (!status.ok())
    return fail(options, options.input, status);
  if (options.json) {
    nlohmann::ordered_json json{
        {"file", nameOf(options.input)}, {"ranks", plan.ranks()}, {"variants", plan.variants.size()}};
    for (const plan::Time each : spans)
      json["launch_order_span_ms"].push_back(milliseconds(each));
    fmt::print("{}", jsonText(json));
    return 0;
  }
  fmt::print("{}: {} ranks, {} variant{}: every rule holds, every run ends\n", units::escaped(nameOf(options.input)),
             plan.ranks(), plan.variants.size(), plan.variants.size() == 1 ? "" : "s");
  for (size_t v = 0; v != spans.size(); ++v)
    fmt::print("  in launch order {} takes {} a step, as certified {}\n",
               plan.variants[v].name.empty() ? fmt::format("variant {}", v) : units::escaped(plan.variants[v].name),
               plan::timeText(spans[v]), plan::timeText(plan.variants[v].certificate.span));
  return 0;
}

int disasmCommand(const CommandOptions &options) {
  plan::Plan plan;
  std::vector<uint8_t> bytes;
  Status status = expectKind(options.input, "a plan", {FileKind::Plan});
  if (status.ok())
    status = loadPlan(options.input, plan, bytes);
  if (status.ok() && options.variant == kEvaluate)
    status = keepEvaluation(plan);
  if (!status.ok())
    return fail(options, options.input, status);
  if (options.rank >= plan.ranks() || options.variant >= int(plan.variants.size()))
    return fail(
        options, options.input,
        Status::usage(fmt::format("the plan has {} ranks and {} variants", plan.ranks(), plan.variants.size())));
  return write(options, plan::disassemble(plan, {options.rank, options.variant}));
}

} // namespace pipec
