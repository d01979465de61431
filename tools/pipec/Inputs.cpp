#include "tools/pipec/Inputs.h"

#include "compiler/driver/Files.h"
#include "compiler/driver/Plans.h"
#include "runtime/plan/Units.h"
#include "runtime/plan/Write.h"
#include "tools/commandline/Standard.h"
#include "tools/pipec/ProgressLine.h"

#include <fmt/format.h>

#include <cstdio>
#include <functional>

namespace pipec {

std::string jsonText(const nlohmann::ordered_json &json) {
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

/// Prints a failure that has not been printed yet, with --json as JSON too. Returns the exit code.
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

/// Compiles a spec or loads a plan. False after printing why not; then `code` is the exit code.
bool obtain(const CommandOptions &options, const std::string &path, Compiled &compiled, int &code) {
  if (Status status = expectKind(path, "a spec or a plan", {FileKind::Spec, FileKind::Plan}); !status.ok()) {
    code = fail(options, path, status);
    return false;
  }
  if (!isPlan(path)) {
    Failure failure;
    compiled.output = options.output;
    bool done = false;
    {
      ProgressLine progress(!options.json, Shown::IfLong);
      compiled.says = std::ref(progress);
      done = compile(path, options.set, Stage::Plan, compiled, failure);
    }
    if (done)
      return true;
    code = fail(options, failure);
    return false;
  }
  const Status status = !options.set.empty()    ? Status::usage("--set changes a spec; this is a plan")
                        : !options.time.empty() ? Status::usage("--time is for the search of a spec; this is a plan")
                                                : loadPlan(path, compiled.plan, compiled.bytes);
  compiled.milliseconds = -1;
  if (status.ok())
    return true;
  code = fail(options, path, status);
  return false;
}

bool readNetwork(const CommandOptions &options, const plan::Plan &plan, simulate::Scenario &network, int &code) {
  simulate::Place place;
  const Status status = simulate::readScenario(options.network, plan.ranks(), network, place, plan.shards());
  network.degree = plan.degree();
  if (!status.ok())
    code = fail(options, options.network, status, place);
  return status.ok();
}

int write(const CommandOptions &options, const std::string &path, std::span<const uint8_t> bytes) {
  if (path.empty() || path == kStandard) {
    std::fwrite(bytes.data(), 1, bytes.size(), stdout); // main reports write errors
    return 0;
  }
  const Status status = plan::writeFile(path, bytes);
  return status.ok() ? 0 : fail(options, path, status);
}

int write(const CommandOptions &options, const std::string &text) {
  return write(options, options.output, {reinterpret_cast<const uint8_t *>(text.data()), text.size()});
}

} // namespace pipec
