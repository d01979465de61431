#include "compiler/emit/BalanceReport.h"

#include "runtime/plan/Text.h"
#include "runtime/plan/Units.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace pipec::emit {

namespace {

using plan::milliseconds;

double gapOf(const BalanceRow &row) { return row.bound.gap(row.span); }

nlohmann::ordered_json jsonOf(const std::optional<double> &value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

nlohmann::ordered_json jsonOf(const std::vector<plan::Range> &ranges) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const plan::Range &range : ranges)
    list.push_back({range.first, range.count});
  return list;
}

/// The portions of one split, which stand together, by shard.
nlohmann::ordered_json jsonOf(const plan::Portion *portions, int32_t shards) {
  nlohmann::ordered_json object = {{"stage", portions->stage},
                                   {"split", portions->split},
                                   {"first_layer", portions->firstLayer},
                                   {"layers", portions->layers},
                                   {"units", portions->units}};
  for (int32_t shard = 0; shard != shards; ++shard) {
    object["owned"].push_back(plan::unitsIn(portions[shard].owned));
    object["worked"].push_back(plan::unitsIn(portions[shard].worked));
    object["kept"].push_back(portions[shard].kept);
    object["owned_ranges"].push_back(jsonOf(portions[shard].owned));
    object["worked_ranges"].push_back(jsonOf(portions[shard].worked));
  }
  return object;
}

/// "4 12": of each shard.
std::string countsOf(const plan::Portion *portions, int32_t shards, int64_t (*of)(const plan::Portion &)) {
  std::string text;
  for (int32_t shard = 0; shard != shards; ++shard)
    text += fmt::format("{}{}", shard == 0 ? "" : " ", of(portions[shard]));
  return text;
}

std::string portionText(const plan::Portion *portions, int32_t shards) {
  const auto counts = [&](int64_t (*of)(const plan::Portion &)) { return countsOf(portions, shards, of); };
  const std::string owned = counts([](const plan::Portion &each) { return plan::unitsIn(each.owned); }),
                    worked = counts([](const plan::Portion &each) { return plan::unitsIn(each.worked); }),
                    kept = counts([](const plan::Portion &each) { return each.kept; });
  return fmt::format("    stage {}, layers {} to {}, {} of {} units: owned [{}]{}{}\n", portions->stage,
                     portions->firstLayer, portions->firstLayer + portions->layers, units::escaped(portions->split),
                     portions->units, owned, worked == owned ? "" : fmt::format(", worked [{}]", worked),
                     kept == worked ? "" : fmt::format(", kept [{}]", kept));
}

std::string rowText(const BalanceRow &row) {
  if (!row.wrong.empty())
    return fmt::format("    {:<8} {}\n", row.name, row.wrong);
  return fmt::format("    {:<8} {:>12}   won back {:>8}, units left out {:5.2f} %, moved {:>10} a step, gap {:.2f} %\n",
                     row.name, plan::timeText(row.span),
                     row.wonBack ? fmt::format("{:.1f} %", 100 * *row.wonBack) : "-", 100 * row.dropped,
                     plan::bytesText(row.moved), 100 * gapOf(row));
}

} // namespace

double droppedOf(const plan::Variant &variant) {
  const auto shards = size_t(variant.shards());
  double all = 0, kept = 0;
  for (size_t i = 0; i + shards <= variant.portions.size(); i += shards) {
    const plan::Portion &first = variant.portions[i];
    all += double(first.units) * first.layers;
    for (size_t shard = 0; shard != shards; ++shard)
      kept += double(variant.portions[i + shard].kept) * first.layers;
  }
  return all == 0 ? 0 : 1 - kept / all;
}

BalanceReport balanceOf(const plan::Variant &variant) {
  BalanceReport made;
  made.shards = variant.shards();
  made.portions = variant.portions;
  made.dropped = droppedOf(variant);
  return made;
}

void addJson(const BalanceReport &report, nlohmann::ordered_json &object) {
  object["shards"] = report.shards;
  if (report.shards == 1)
    return;
  object["portions"] = nlohmann::ordered_json::array();
  for (size_t i = 0; i + size_t(report.shards) <= report.portions.size(); i += size_t(report.shards))
    object["portions"].push_back(jsonOf(&report.portions[i], report.shards));
  const bool known = report.own.has_value();
  object["healthy_ms"] = known ? nlohmann::ordered_json(milliseconds(report.healthy)) : nlohmann::ordered_json();
  object["won_back"] = known ? jsonOf(report.own->wonBack) : nlohmann::ordered_json();
  object["dropped"] = report.dropped;
  object["moved_bytes"] = known ? nlohmann::ordered_json(report.own->moved) : nlohmann::ordered_json();
  object["balances"] = nlohmann::ordered_json::array();
  for (const BalanceRow &row : report.rows) {
    if (!row.wrong.empty()) {
      object["balances"].push_back({{"name", row.name}, {"error", row.wrong}});
      continue;
    }
    object["balances"].push_back({{"name", row.name},
                                  {"span_ms", milliseconds(row.span)},
                                  {"won_back", jsonOf(row.wonBack)},
                                  {"dropped", row.dropped},
                                  {"moved_bytes", row.moved},
                                  {"gap", gapOf(row)}});
  }
}

std::string textOf(const BalanceReport &report) {
  constexpr size_t kShown = 16;
  if (report.shards == 1)
    return {};
  std::string text = fmt::format("  {:<9} {:>12}   processes share each rank's matrices", "shards", report.shards) +
                     (report.own && report.own->wonBack
                          ? fmt::format("; {} if none were slow, of what they cost {:.1f} % is won back\n",
                                        plan::timeText(report.healthy), 100 * *report.own->wonBack)
                          : "\n");
  size_t shown = 0;
  for (size_t i = 0; i + size_t(report.shards) <= report.portions.size(); i += size_t(report.shards))
    if (++shown <= kShown)
      text += portionText(&report.portions[i], report.shards);
  if (shown > kShown)
    text += fmt::format("    … {} more\n", shown - kShown);
  for (const BalanceRow &row : report.rows)
    text += rowText(row);
  return text;
}

} // namespace pipec::emit
