// The output of `pipec search` for the schedules that it has compiled (compiler/compare/Comparison.h).
#pragma once

#include "compiler/compare/Bursts.h"
#include "compiler/compare/Comparison.h"
#include "runtime/plan/Text.h"
#include "tools/pipec/Commands.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace pipec {

using plan::milliseconds;

/// A row's figures, or its error.
nlohmann::ordered_json jsonOf(const Row &row);

/// The rows as a table; gaps are those of the objective.
std::string tableOf(const std::vector<Row> &rows, schedule::Objective objective);

/// The same for widths of layers.
nlohmann::ordered_json jsonOf(const BurstRow &row);
std::string tableOf(const std::vector<BurstRow> &rows);

/// Prints the table, or the rows as JSON, with the other fields of `beside`. Returns the exit code.
int print(const CommandOptions &options, const std::vector<Row> &rows, const std::string &table,
          const nlohmann::ordered_json &beside = nlohmann::ordered_json::object());
int print(const CommandOptions &options, const std::vector<BurstRow> &rows, const std::string &table,
          const nlohmann::ordered_json &beside = nlohmann::ordered_json::object());

} // namespace pipec
