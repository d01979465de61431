#include "compiler/emit/WidthsReport.h"

#include "runtime/plan/Text.h"
#include "runtime/simulate/Simulate.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

namespace pipec::emit {

namespace {

/// On how many ranks an operation runs.
int32_t widthOf(const std::vector<int32_t> &widths, const plan::Operation &operation) {
  const int32_t own = widths[size_t(operation.stage)];
  return !plan::movesSamples(operation.kind)
             ? own
             : std::max(own, widths[size_t(plan::takerOf(operation.stage, operation.of))]);
}

/// How long ranks are kept by what runs on rank 0, which has part in all, with as many samples as anyone: at each
/// moment so many as the widest of it is on.
plan::Time keptBy(const plan::Variant &variant, const std::vector<int32_t> &widths) {
  std::map<plan::Time, std::map<int32_t, int>> changes; // by width: how many begin, less how many end
  simulate::Options options;
  options.observe = [&](const simulate::Event &event) {
    if (event.place != 0 || event.end == event.start)
      return;
    const int32_t width = widthOf(widths, *event.operation);
    ++changes[event.start][width];
    --changes[event.end][width];
  };
  simulate::Result result;
  if (!simulate::simulate(variant, options, result).ok())
    return 0;
  __int128 kept = 0;
  plan::Time since = 0;
  std::map<int32_t, int> running;
  for (const auto &[time, counts] : changes) {
    if (!running.empty())
      kept += __int128(running.rbegin()->first) * (time - since);
    since = time;
    for (const auto &[width, count] : counts)
      if ((running[width] += count) == 0)
        running.erase(width);
  }
  return plan::Time(std::min<__int128>(kept, std::numeric_limits<plan::Time>::max()));
}

} // namespace

WidthsReport widthsOf(const plan::Variant &variant) {
  WidthsReport report;
  if (!variant.sharesStages())
    return report;
  report.batch = variant.batch;
  const std::vector<int32_t> widths = variant.widths();
  for (size_t stage = 0; stage != widths.size(); ++stage)
    report.widths.insert(report.widths.end(), variant.cut.empty() ? 1 : size_t(variant.cut[stage]), widths[stage]);
  report.device = keptBy(variant, widths);
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
