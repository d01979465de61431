#include "tools/pipec/SearchRows.h"

#include "compiler/emit/WidthsReport.h"
#include "runtime/plan/Text.h"
#include "tools/commandline/Standard.h"
#include "tools/pipec/Inputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>

namespace pipec {

namespace {

/// The kind of backward of a row, on which its bounds depend.
const char *backwardOf(const Row &row) {
  return row.problem.backward == schedule::BackwardMode::Fused && !row.wholeAsParts ? "fused"
         : row.problem.mixed                                                        ? "mixed"
                                                                                    : "split";
}

} // namespace

/// The figures that all rows have.
static nlohmann::ordered_json figuresOf(const Row &row) {
  nlohmann::ordered_json object = {{"name", row.name}};
  if (!row.wrong.empty()) {
    object["error"] = row.wrong;
    return object;
  }
  const plan::Certificate &certificate = row.certificate;
  object["span_ms"] = milliseconds(certificate.span);
  object["span_lower_bound_ms"] = milliseconds(certificate.spanLowerBound.picoseconds());
  object["span_gap"] = certificate.spanLowerBound.gap(certificate.span);
  object["makespan_ms"] = milliseconds(certificate.makespan);
  object["lower_bound_ms"] = milliseconds(certificate.lowerBound.picoseconds());
  object["gap"] = certificate.lowerBound.gap(certificate.makespan);
  object["span_bubble_rate"] = row.bubble;
  object["peak_bytes"] = row.peak;
  return object;
}

nlohmann::ordered_json jsonOf(const BurstRow &row) {
  nlohmann::ordered_json object = figuresOf(row);
  if (!row.wrong.empty())
    return object;
  object["widths"] = row.widths;
  object["device_time_ms"] = milliseconds(row.device);
  object["foreground"] = row.foreground;
  object["useful"] = row.useful;
  object["cluster"] = row.cluster;
  object["bound"] = row.bound > 0 ? nlohmann::ordered_json(row.bound) : nlohmann::ordered_json();
  return object;
}

nlohmann::ordered_json jsonOf(const Row &row) {
  nlohmann::ordered_json object = figuresOf(row);
  if (!row.wrong.empty())
    return object;
  if (!row.cut.empty()) {
    object["stages_per_rank"] = row.stages / row.problem.ranks;
    object["cut"] = row.cut;
  }
  if (!row.recompute.empty())
    object["recompute"] = row.recompute;
  object["backward"] = backwardOf(row); // the bounds depend on it
  const schedule::Problem &problem = row.problem;
  if (problem.memoryLimit != 0 && problem.withheld.empty())
    object["memory_limit_bytes"] = problem.memoryLimit;
  else if (problem.memoryLimit != 0) // a list by rank
    for (int32_t rank = 0; rank != problem.ranks; ++rank)
      object["memory_limit_bytes"].push_back(problem.limitOf(rank));
  return object;
}

std::string tableOf(const std::vector<Row> &rows, schedule::Objective objective) {
  const Row *first = nullptr;
  bool several = false; // rows have different bounds
  for (const Row &each : rows)
    if (each.wrong.empty()) {
      first = first ? first : &each;
      several |= boundOf(each.certificate, objective) != boundOf(first->certificate, objective) ||
                 each.problem.backward != first->problem.backward;
    }
  const bool cuts = std::any_of(rows.begin(), rows.end(), [](const Row &each) { return !each.cut.empty(); });
  const bool again = std::any_of(rows.begin(), rows.end(), [](const Row &each) { return !each.recompute.empty(); });
  std::string table = fmt::format("{:<18} {:>14} {:>9} {:>14} {:>14} {:>9}{}{}{}\n", "schedule", "span", "bubble",
                                  "makespan", "peak", "gap", several ? fmt::format("  {:<20}", "of its bound") : "",
                                  cuts ? "  layers of each stage" : "", again ? "  stages run again" : "");
  for (const Row &each : rows) {
    if (!each.wrong.empty()) {
      table += fmt::format("{:<18} {}\n", each.name, each.wrong);
      continue;
    }
    const plan::LeastTime bound = boundOf(each.certificate, objective);
    table += fmt::format(
        "{:<18} {:>14} {:>7.2f} % {:>14} {:>14} {:>7.2f} %{}{}{}\n", each.name, plan::timeText(each.certificate.span),
        100 * each.bubble, plan::timeText(each.certificate.makespan), plan::bytesText(each.peak),
        100 * bound.gap(timeOf(each.certificate, objective)),
        several ? fmt::format("  {:<20}", plan::timeText(bound.picoseconds()) + ", " + backwardOf(each)) : "",
        cuts ? fmt::format("  [{}]", fmt::join(each.cut, ", ")) : "",
        again ? fmt::format("  [{}]", fmt::join(each.recompute, ", ")) : "");
  }
  return table;
}

std::string tableOf(const std::vector<BurstRow> &rows) {
  std::string table = fmt::format("{:<22} {:>14} {:>10} {:>14} {:>8} {:>8} {:>6}  {}\n", "plan", "span", "foreground",
                                  "device time", "useful", "cluster", "bound", "widths");
  for (const BurstRow &each : rows)
    table += each.wrong.empty()
                 ? fmt::format("{:<22} {:>14} {:>8.2f} x {:>14} {:>6.1f} % {:>6.2f} x {:>6}  {}\n", each.name,
                               plan::timeText(each.certificate.span), each.foreground, plan::timeText(each.device),
                               100 * each.useful, each.cluster, each.bound > 0 ? fmt::format("{:.2f}", each.bound) : "",
                               emit::widthsText(each.widths))
                 : fmt::format("{:<22} {}\n", each.name, each.wrong);
  return table;
}

template <typename Each>
static int printRows(const CommandOptions &options, const std::vector<Each> &rows, const std::string &table,
                     const nlohmann::ordered_json &beside) {
  if (options.json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Each &each : rows)
      list.push_back(jsonOf(each));
    nlohmann::ordered_json object = {{"schedules", list}};
    object.update(beside);
    fmt::print("{}", jsonText(object));
  } else {
    fmt::print("{}", table);
  }
  const bool anyFits = std::any_of(rows.begin(), rows.end(), [](const Row &each) { return each.wrong.empty(); });
  return int(anyFits ? Code::Ok : Code::Check);
}

int print(const CommandOptions &options, const std::vector<Row> &rows, const std::string &table,
          const nlohmann::ordered_json &beside) {
  return printRows(options, rows, table, beside);
}
int print(const CommandOptions &options, const std::vector<BurstRow> &rows, const std::string &table,
          const nlohmann::ordered_json &beside) {
  return printRows(options, rows, table, beside);
}

} // namespace pipec
