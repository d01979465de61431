#include "compiler/emit/WidthsReport.h"

#include "runtime/plan/Text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace pipec::emit {

WidthsReport widthsOf(const plan::Variant &variant) {
  WidthsReport report;
  if (!variant.sharesStages())
    return report;
  report.batch = variant.batch;
  const std::vector<int32_t> widths = variant.widths();
  for (size_t stage = 0; stage != widths.size(); ++stage)
    report.widths.insert(report.widths.end(), variant.cut.empty() ? 1 : size_t(variant.cut[stage]), widths[stage]);
  // Rank 0 has part in all of it, with as many samples as anyone.
  for (plan::Cursor cursor(variant.programs.front()); !cursor.done(); cursor.next()) {
    const plan::Operation &operation = *cursor.at().operation;
    int32_t width = widths[size_t(operation.stage)];
    if (operation.kind == plan::Kind::Reshard)
      width = std::max(width, widths[size_t(operation.stage) + (operation.of == plan::Payload::Forward ? 1 : -1)]);
    report.device += width * operation.cost;
  }
  return report;
}

void addJson(const WidthsReport &report, nlohmann::ordered_json &object) {
  if (report.widths.empty())
    return;
  object["widths"] = report.widths;
  object["device_time_ms"] = plan::milliseconds(report.device);
}

std::string widthsText(const std::vector<int32_t> &widths) {
  std::vector<std::string> runs;
  for (size_t first = 0; first != widths.size();) {
    size_t end = first + 1;
    while (end != widths.size() && widths[end] == widths[first])
      ++end;
    runs.push_back(end - first == 1 ? std::to_string(widths[first])
                                    : fmt::format("{} x {}", widths[first], end - first));
    first = end;
  }
  return fmt::format("{}", fmt::join(runs, ", "));
}

std::string textOf(const WidthsReport &report) {
  if (report.widths.empty())
    return {};
  return fmt::format("  {:<9} {:>12}   ranks x time that a step of {} samples keeps; layers are on {} ranks\n",
                     "device", plan::timeText(report.device), report.batch, widthsText(report.widths));
}

} // namespace pipec::emit
