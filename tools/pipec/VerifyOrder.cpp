#include "tools/pipec/VerifyOrder.h"

#include "compiler/driver/Diagnostics.h"
#include "compiler/driver/Files.h"
#include "runtime/plan/Status.h"
#include "runtime/plan/Units.h"
#include "tools/pipec/Inputs.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Location.h"
#include "mlir/IR/MLIRContext.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace pipec {

namespace {

emit::Communicator communicatorOf(const CommandOptions &options) {
  for (const auto communicator :
       {emit::Communicator::PerEdge, emit::Communicator::PerPair, emit::Communicator::LaunchOrder})
    if (options.communicator == emit::name(communicator))
      return communicator;
  return emit::Communicator::Shared;
}

/// Prints what is wrong with the file, with a caret under the cell, and with --json as JSON too. Returns the exit code.
int refuse(const CommandOptions &options, const std::string &path, const emit::OrderStop &stop, Code code) {
  {
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    mlir::ScopedDiagnosticHandler handler(&context, [](mlir::Diagnostic &diagnostic) { print(diagnostic); });
    auto at = [&](int line, int column) -> mlir::Location {
      if (line == 0)
        return mlir::UnknownLoc::get(&context);
      return mlir::FileLineColLoc::get(&context, nameOf(path), unsigned(line), unsigned(column));
    };
    mlir::InFlightDiagnostic error = mlir::emitError(at(stop.error.line, stop.error.column)) << stop.error.message;
    for (const emit::OrderNote &note : stop.notes)
      error.attachNote(at(note.line, note.column)) << note.message;
  }
  if (!options.json)
    return int(code);
  nlohmann::ordered_json notes = nlohmann::ordered_json::array();
  for (const emit::OrderNote &note : stop.notes)
    if (note.line == 0)
      notes.push_back({{"message", note.message}});
    else
      notes.push_back({{"line", note.line}, {"column", note.column}, {"message", note.message}});
  nlohmann::ordered_json object = {{"error", stop.error.message}, {"code", int(code)},
                                   {"file", nameOf(path)},        {"line", stop.error.line},
                                   {"column", stop.error.column}, {"notes", std::move(notes)}};
  fmt::print("{}", jsonText(object));
  return int(code);
}

int64_t transfersOf(const schedule::OrderIndex &index) {
  int64_t joints = 0; // neighbouring stages on different ranks
  for (size_t s = 0; s + 1 < index.rankOf.size(); ++s)
    joints += index.rankOf[s] != index.rankOf[s + 1];
  return 2 * joints * index.microbatches;
}

/// The number of OVERLAP_F_B cells.
int64_t pairsOf(const schedule::OrderCells &cells) {
  int64_t pairs = 0;
  for (const std::vector<schedule::Cell> &row : cells.rows)
    pairs += std::count_if(row.begin(), row.end(), [](const schedule::Cell &cell) { return cell.opensPair; });
  return pairs;
}

} // namespace

bool obtainOrder(const CommandOptions &options, const std::string &path, emit::Communicator communicator,
                 OrderFile &order, int &code) {
  emit::OrderStop stop;
  Code wrong = Code::Ok;
  if (readOrderFile(path, communicator, order, stop, wrong))
    return true;
  code = refuse(options, path, stop, wrong);
  return false;
}

int verifyOrderCommand(const CommandOptions &options) {
  OrderFile order;
  int code = 0;
  const emit::Communicator communicator = communicatorOf(options);
  if (!obtainOrder(options, options.input, communicator, order, code))
    return code;
  const schedule::OrderCells &cells = order.cells;
  const schedule::OrderIndex &index = order.index;
  const bool comms = cells.format == schedule::OrderFormat::ComputeComms;
  const std::string_view format = comms ? "compute_comms" : "compute_only";
  const emit::OrderTime time = emit::timeOrder(cells, index, communicator);
  if (options.json) {
    nlohmann::ordered_json object = {{"file", nameOf(options.input)}, {"format", format}};
    if (comms)
      object["torch"] = nameOf(cells.release);
    object["ranks"] = cells.rows.size();
    object["stages"] = index.stages;
    object["microbatches"] = index.microbatches;
    object["transfers"] = transfersOf(index);
    if (cells.pairs)
      object["overlapped"] = pairsOf(cells);
    if (comms)
      object["communicator"] = emit::name(communicator);
    object["unit_time"] = time.units;
    object["unit_bubble_rate"] = time.bubble;
    fmt::print("{}", jsonText(object));
    return 0;
  }
  fmt::print(
      "{}: {}{}, {} ranks, {} stages, {} microbatches, {} transfers{}: every rule holds, every run ends{}\n",
      units::escaped(nameOf(options.input)), format,
      comms ? fmt::format(" as release {} spells it", nameOf(cells.release)) : "", cells.rows.size(), index.stages,
      index.microbatches, transfersOf(index), cells.pairs ? fmt::format(", {} overlapped pairs", pairsOf(cells)) : "",
      comms ? fmt::format(" (communicator {})", emit::name(communicator)) : " where PyTorch places the transfers");
  fmt::print("  with F, B and W of one unit each and transfers that take none: {} units, bubble {:.2f} %\n", time.units,
             100 * time.bubble);
  return 0;
}

} // namespace pipec
