// What most subcommands begin and end with: a spec or a plan, its figures, and how a failure is said.
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

/// A spec is compiled, a plan loaded. False after saying why not; `code` is the exit code then.
bool obtain(const CommandOptions &options, const std::string &path, Compiled &compiled, int &code);

/// The scenario of --network, for a plan of so many ranks; false after saying what is wrong with it.
bool readNetwork(const CommandOptions &options, const plan::Plan &plan, simulate::Scenario &network, int &code);

/// To a file, atomically, or to standard output where `path` is empty or `-`; the exit code.
int write(const CommandOptions &options, const std::string &path, std::span<const uint8_t> bytes);
/// To the file of -o.
int write(const CommandOptions &options, const std::string &text);
/// `--emit=svg` of what has been compiled.
int showSvg(const CommandOptions &options, const Compiled &compiled);
/// `--emit=html`, with the run of --trace where there is one.
int showPage(const CommandOptions &options, const Compiled &compiled);

} // namespace pipec
