#include "compiler/emit/WidthsReport.h"

#include "runtime/plan/Text.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
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
  __int128 device = 0;
  for (plan::Cursor cursor(variant.programs.front()); !cursor.done(); cursor.next()) {
    const plan::Operation &operation = *cursor.at().operation;
    int32_t width = widths[size_t(operation.stage)];
    if (operation.kind == plan::Kind::Reshard)
      width = std::max(width, widths[size_t(plan::takerOf(operation.stage, operation.of))]);
    device += __int128(width) * operation.cost;
  }
  report.device = plan::Time(std::min<__int128>(device, std::numeric_limits<plan::Time>::max()));
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
