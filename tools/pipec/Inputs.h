// The common beginning and end of most subcommands: reading a spec or a plan, its figures, and reporting a failure.
#pragma once

#include "compiler/driver/Compile.h"
#include "runtime/plan/Status.h"
#include "runtime/simulate/ScenarioFile.h"
#include "tools/pipec/Commands.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>

namespace pipec {

/// Reports a failure if it has not been reported yet, with --json as JSON too. Returns the exit code.
int fail(const CommandOptions &options, const Failure &failure);
int fail(const CommandOptions &options, const std::string &file, const Status &status,
         std::optional<simulate::Place> place = std::nullopt);

/// Text for --json: bytes that are no UTF-8, as a file's name may have, are replaced.
std::string jsonText(const nlohmann::ordered_json &json);

/// Compiles a spec or loads a plan. False after printing why not; then `code` is the exit code.
bool obtain(const CommandOptions &options, const std::string &path, Compiled &compiled, int &code);

/// Reads the scenario of --network for a plan. False after printing what is wrong with it.
bool readNetwork(const CommandOptions &options, const plan::Plan &plan, simulate::Scenario &network, int &code);

/// Writes to a file, atomically, or to standard output if `path` is empty or `-`. Returns the exit code.
int write(const CommandOptions &options, const std::string &path, std::span<const uint8_t> bytes);
/// Writes to the file of -o.
int write(const CommandOptions &options, const std::string &text);
/// Prints `--emit=svg` of a compiled spec or plan.
int showSvg(const CommandOptions &options, const Compiled &compiled);
/// Prints `--emit=html`, with the run of --trace if there is one.
int showPage(const CommandOptions &options, const Compiled &compiled);

} // namespace pipec
