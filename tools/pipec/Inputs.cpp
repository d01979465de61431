#include "tools/pipec/Inputs.h"

#include "runtime/plan/Format.h"
#include "runtime/plan/Load.h"
#include "runtime/plan/Write.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

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
  // What loads files names the file itself.
  std::string_view message = status.message;
  if (message.starts_with(file + ": "))
    message.remove_prefix(file.size() + 2);
  std::string where = file;
  if (place)
    where += fmt::format(":{}:{}", place->line, place->column);
  fmt::print(stderr, "{}: error: {}\n", where, message);
  const simulate::Place known = place.value_or(simulate::Place());
  return fail(options, Failure{status.code, std::string(message), file, unsigned(known.line), unsigned(known.column)});
}

std::string beginningOf(const std::string &path, size_t most) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    return {}; // reading a pipe twice would lose what it held
  std::FILE *file = std::fopen(path.c_str(), "rb");
  if (!file)
    return {};
  std::string bytes(most, '\0');
  bytes.resize(std::fread(bytes.data(), 1, most, file));
  std::fclose(file);
  return bytes;
}

/// Whether the file says that it is a plan; what cannot be read is left to whoever reads it as a spec.
bool isPlan(const std::string &path) { return beginningOf(path, plan::kMagic.size()) == plan::kMagic; }

/// Loads a plan with every rule and the walk.
Status loadChecked(const std::string &path, plan::Plan &plan) {
  if (Status status = plan::load(path, plan); !status.ok())
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
  if (!isPlan(path)) {
    Failure failure;
    compiled.output = options.output;
    if (compile(path, options.set, Stage::Plan, compiled, failure))
      return true;
    code = fail(options, failure);
    return false;
  }
  Status status = options.set.empty() ? plan::readFile(path, compiled.bytes)
                                      : Status::usage("--set changes a spec; this is a plan");
  if (status.ok())
    status = plan::decode(compiled.bytes, compiled.plan);
  if (status.ok())
    status = plan::verify(compiled.plan);
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

/// To a file, atomically, or to standard output where none is named.
int write(const CommandOptions &options, const std::string &text) {
  if (options.output.empty()) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return 0;
  }
  Status status = plan::writeFile(options.output, {reinterpret_cast<const uint8_t *>(text.data()), text.size()});
  return status.ok() ? 0 : fail(options, options.output, status);
}

} // namespace pipec
