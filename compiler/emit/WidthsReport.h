// On how many ranks the layers of a plan run, and how long they keep them: for `pipec report`.
#pragma once

#include "runtime/plan/Plan.h"

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace pipec::emit {

/// Nothing where each stage is on one rank.
struct WidthsReport {
  std::vector<int32_t> widths; // by layer; by stage where the plan does not say the layers of stages
  int64_t batch = 0;           // samples of a step
  /// Ranks × time that a step keeps them, collectives included (a reshard: of the wider group); what runs beside
  /// something wider keeps none.
  plan::Time device = 0;
};

WidthsReport widthsOf(const plan::Variant &variant);

/// Adds the keys of a report (design, section 7): `widths` and `device_time_ms`.
void addJson(const WidthsReport &report, nlohmann::ordered_json &object);
/// A line for people; none where each stage is on one rank.
std::string textOf(const WidthsReport &report);
/// "4 x 3, 2, 1 x 2": widths of layers one after the other.
std::string widthsText(const std::vector<int32_t> &widths);

} // namespace pipec::emit
