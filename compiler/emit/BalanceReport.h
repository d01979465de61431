// Figures about the shards of ranks, for `pipec report`.
#pragma once

#include "runtime/plan/Plan.h"

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace pipec::emit {

/// One balance of units among shards, or the case without slow shards.
struct BalanceRow {
  std::string name;
  plan::Time span = 0;
  plan::LeastTime bound;
  /// Fraction of the time lost to slow shards under equal portions that this row recovers: 0 is even, 1 is healthy;
  /// absent: nothing is lost.
  std::optional<double> wonBack;
  double dropped = 0;    // fraction of all units that is left out
  plan::Bytes moved = 0; // bytes per step, sent by all shards, for units worked elsewhere than they are owned
  std::string wrong;     // why there are no figures; empty: there are
};

/// The report of a variant with shards; the last three fields need a spec, which gives the alternatives.
struct BalanceReport {
  int32_t shards = 1;
  std::vector<plan::Portion> portions;
  double dropped = 0;
  std::optional<BalanceRow> own;
  plan::Time healthy = 0; // span if no shard were slow
  std::vector<BalanceRow> rows;
};

/// The report from the plan alone.
BalanceReport balanceOf(const plan::Variant &variant);
/// The fraction of all units that is left out.
double droppedOf(const plan::Variant &variant);

/// Adds the keys of a report (design, section 7): `shards` and, with several shards, `portions` and the others.
void addJson(const BalanceReport &report, nlohmann::ordered_json &object);
/// Lines for people; none without shards.
std::string textOf(const BalanceReport &report);

} // namespace pipec::emit
