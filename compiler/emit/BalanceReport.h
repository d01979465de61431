// What shards of ranks are worth, in figures: for `pipec report`.
#pragma once

#include "runtime/plan/Plan.h"

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace pipec::emit {

/// One way to give units to shards, or no slow shards at all.
struct BalanceRow {
  std::string name;
  plan::Time span = 0;
  plan::LeastTime bound;
  std::optional<double>
      wonBack;           // of what slow shards cost an equal cut: 0 is even, 1 healthy; absent: they cost nothing
  double dropped = 0;    // of all units
  plan::Bytes moved = 0; // a step, by all shards, for units worked elsewhere than they are owned
  std::string wrong;     // why there are no figures; empty: there are
};

/// Of a variant whose ranks have shards; the last three only where a spec says what else could have been.
struct BalanceReport {
  int32_t shards = 1;
  std::vector<plan::Portion> portions;
  double dropped = 0;
  std::optional<BalanceRow> own;
  plan::Time healthy = 0; // its span if no shard were slow
  std::vector<BalanceRow> rows;
};

/// Of what the plan itself says.
BalanceReport balanceOf(const plan::Variant &variant);
/// The part of all units that is left out.
double droppedOf(const plan::Variant &variant);

/// Adds the keys of a report (design, section 7): `shards`, and where there are several `portions` and the others.
void addJson(const BalanceReport &report, nlohmann::ordered_json &object);
/// Lines for people; none without shards.
std::string textOf(const BalanceReport &report);

} // namespace pipec::emit
