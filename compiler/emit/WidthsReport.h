// The number of ranks that each layer of a plan runs on, and the time for which it occupies them, for `pipec report`.
#pragma once

#include "runtime/plan/Plan.h"

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace pipec::emit {

/// Empty if each stage is on one rank.
struct WidthsReport {
  std::vector<int32_t> widths; // by layer, or by stage if the plan does not give the layers of stages
  int64_t batch = 0;           // samples of a step
  /// Device time of a step: ranks × time for which the step occupies them, collectives included (a reshard: the wider
  /// group). Work that runs beside wider work adds nothing.
  plan::Time device = 0;
};

WidthsReport widthsOf(const plan::Variant &variant);

/// Adds the keys of a report (design, section 7): `widths` and `device_time_ms`.
void addJson(const WidthsReport &report, nlohmann::ordered_json &object);
/// A line for people; none if each stage is on one rank.
std::string textOf(const WidthsReport &report);
/// "4 x 3, 2, 1 x 2": widths of layers one after the other.
std::string widthsText(const std::vector<int32_t> &widths);

} // namespace pipec::emit
