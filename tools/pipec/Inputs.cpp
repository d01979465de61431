#include "tools/pipec/Inputs.h"

#include "compiler/driver/Files.h"
#include "runtime/plan/Load.h"
#include "runtime/plan/Units.h"
#include "runtime/plan/Write.h"
#include "tools/commandline/Standard.h"

#include <fmt/format.h>

#include <cstdio>

namespace pipec {

std::string jsonText(const nlohmann::ordered_json &json) {
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

/// Says what is wrong where it has not been said, in JSON too where asked; the exit code.
int fail(const CommandOptions &options, const Failure &failure) {
  if (options.json) {
    nlohmann::ordered_json object = {{"error", failure.message}, {"code", int(failure.code)}};
    object["file"] = failure.file;
    object["line"] = failure.line;
    object["column"] = failure.column;
    fmt::print("{}", jsonText(object));
  }
  return int(failure.code);
}

int fail(const CommandOptions &options, const std::string &file, const Status &status,
         std::optional<simulate::Place> place) {
  const std::string message = withoutName(status.message, file), name = nameOf(file);
  std::string where = units::escaped(name);
  if (place)
    where += fmt::format(":{}:{}", place->line, place->column);
  say("{}: error: {}\n", where, message);
  const simulate::Place known = place.value_or(simulate::Place());
  return fail(options, Failure{status.code, message, name, unsigned(known.line), unsigned(known.column)});
}

Status loadPlan(const std::string &path, plan::Plan &plan, std::vector<uint8_t> &bytes) {
  Status status = readPlan(path, bytes);
  if (status.ok())
    status = plan::decode(bytes, plan);
  return status.ok() ? plan::verify(plan) : status;
}

/// Loads a plan with every rule and the walk.
Status loadChecked(const std::string &path, plan::Plan &plan) {
  std::vector<uint8_t> bytes;
  if (Status status = loadPlan(path, plan, bytes); !status.ok())
    return status;
  for (const plan::Variant &variant : plan.variants) {
    simulate::Result result;
    if (Status status = simulate::prove(variant, result); !status.ok())
      return status;
  }
  return {};
}

/// A spec is compiled, a plan loaded. False after saying why not; `code` is the exit code then.
bool obtain(const CommandOptions &options, const std::string &path, Compiled &compiled, int &code) {
  if (Status status = expectKind(path, "a spec or a plan", {FileKind::Spec, FileKind::Plan}); !status.ok()) {
    code = fail(options, path, status);
    return false;
  }
  if (!isPlan(path)) {
    Failure failure;
    compiled.output = options.output;
    if (compile(path, options.set, Stage::Plan, compiled, failure))
      return true;
    code = fail(options, failure);
    return false;
  }
  const Status status = options.set.empty() ? loadPlan(path, compiled.plan, compiled.bytes)
                                            : Status::usage("--set changes a spec; this is a plan");
  compiled.milliseconds = -1;
  if (status.ok())
    return true;
  code = fail(options, path, status);
  return false;
}

bool readNetwork(const CommandOptions &options, int32_t ranks, simulate::Scenario &network, int &code) {
  simulate::Place place;
  const Status status = simulate::readScenario(options.network, ranks, network, place);
  if (!status.ok())
    code = fail(options, options.network, status, place);
  return status.ok();
}

Status figuresOf(const Compiled &compiled, emit::PlanReport &report) {
  report.planBytes = int64_t(compiled.bytes.size());
  report.compileMs = compiled.milliseconds;
  if (compiled.walks.empty())
    return emit::report(compiled.plan, report);
  for (size_t v = 0; v != compiled.walks.size(); ++v)
    report.variants.push_back(emit::report(compiled.plan.variants[v], compiled.walks[v]));
  return {};
}

int write(const CommandOptions &options, const std::string &path, std::span<const uint8_t> bytes) {
  if (path.empty() || path == kStandard) {
    std::fwrite(bytes.data(), 1, bytes.size(), stdout); // main says whether that went well
    return 0;
  }
  const Status status = plan::writeFile(path, bytes);
  return status.ok() ? 0 : fail(options, path, status);
}

int write(const CommandOptions &options, const std::string &text) {
  return write(options, options.output, {reinterpret_cast<const uint8_t *>(text.data()), text.size()});
}

} // namespace pipec
