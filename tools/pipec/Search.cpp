// pipec search: every schedule of the catalogue that the spec allows, and what the search finds, compiled and put in
// order; or what the search finds under one memory limit after another.
#include "runtime/plan/Text.h"
#include "tools/pipec/Commands.h"
#include "tools/pipec/Compile.h"
#include "tools/pipec/Inputs.h"

#include "compiler/schedule/Catalogue.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <tuple>
#include <unistd.h>

namespace pipec {

namespace {

struct Row {
  std::string name;
  plan::Certificate certificate;
  double bubble = 0; // of the span
  plan::Bytes peak = 0, limit = 0;
  std::string wrong; // why there is no plan; empty: there is one
};

double gap(plan::Time time, plan::Time bound) { return bound > 0 ? double(time) / double(bound) - 1 : 0; }
double milliseconds(plan::Time time) { return double(time) / 1e9; }

/// Says on a terminal what is being tried.
class Progress {
public:
  explicit Progress(bool shown) : shown(shown && isatty(STDERR_FILENO)) {}
  ~Progress() { say(""); }
  void say(const std::string &what) const {
    if (shown)
      fmt::print(stderr, "\r\x1b[K{}", what);
  }

private:
  bool shown;
};

/// False where the spec does not allow what is laid over it: no row for it.
bool row(const CommandOptions &options, std::vector<std::string> over, Row &made) {
  std::vector<std::string> set = options.set;
  set.insert(set.end(), over.begin(), over.end());
  Compiled compiled;
  Failure failure;
  if (!compile(options.input, set, Stage::Plan, compiled, failure, Said::Nothing)) {
    made.wrong = failure.message;
    return failure.code == Code::Check;
  }
  emit::PlanReport figures;
  if (Status status = figuresOf(compiled, figures); !status.ok()) {
    made.wrong = status.message;
    return true;
  }
  const emit::Report &own = figures.variants.front();
  made.certificate = own.certificate;
  made.bubble = own.spanBubbleRate;
  made.peak = *std::max_element(own.peak.begin(), own.peak.end());
  made.limit = compiled.plan.variants.front().memoryLimit;
  return true;
}

nlohmann::ordered_json json(const Row &row) {
  nlohmann::ordered_json object = {{"name", row.name}};
  if (!row.wrong.empty()) {
    object["error"] = row.wrong;
    return object;
  }
  const plan::Certificate &certificate = row.certificate;
  object["span_ms"] = milliseconds(certificate.span);
  object["span_lower_bound_ms"] = milliseconds(certificate.spanLowerBound);
  object["span_gap"] = gap(certificate.span, certificate.spanLowerBound);
  object["makespan_ms"] = milliseconds(certificate.makespan);
  object["lower_bound_ms"] = milliseconds(certificate.lowerBound);
  object["gap"] = gap(certificate.makespan, certificate.lowerBound);
  object["span_bubble_rate"] = row.bubble;
  object["peak_bytes"] = row.peak;
  if (row.limit != 0)
    object["memory_limit_bytes"] = row.limit;
  return object;
}

int print(const CommandOptions &options, const std::vector<Row> &rows, const std::string &table) {
  if (!options.json) {
    fmt::print("{}", table);
    return 0;
  }
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Row &each : rows)
    list.push_back(json(each));
  fmt::print("{}\n", nlohmann::ordered_json{{"schedules", list}}.dump(2));
  return 0;
}

int searchSchedules(const CommandOptions &options) {
  std::vector<Row> rows;
  {
    const Progress progress(!options.json);
    std::vector<std::string> names = {"auto"};
    for (const schedule::Entry &entry : schedule::catalogue())
      names.emplace_back(entry.name);
    for (const std::string &name : names) {
      progress.say(fmt::format("trying {} …", name));
      Row made;
      made.name = name;
      if (row(options, {"schedule=" + name}, made))
        rows.push_back(std::move(made));
    }
  }
  std::sort(rows.begin(), rows.end(), [](const Row &a, const Row &b) {
    return std::tuple(!a.wrong.empty(), a.certificate.span, a.peak, std::string_view(a.name)) <
           std::tuple(!b.wrong.empty(), b.certificate.span, b.peak, std::string_view(b.name));
  });
  std::string table =
      fmt::format("{:<18} {:>14} {:>9} {:>14} {:>14} {:>9}\n", "schedule", "span", "bubble", "makespan", "peak", "gap");
  for (const Row &each : rows)
    table += each.wrong.empty() ? fmt::format("{:<18} {:>14} {:>7.2f} % {:>14} {:>14} {:>7.2f} %\n", each.name,
                                              plan::timeText(each.certificate.span), 100 * each.bubble,
                                              plan::timeText(each.certificate.makespan), plan::bytesText(each.peak),
                                              100 * gap(each.certificate.span, each.certificate.spanLowerBound))
                                : fmt::format("{:<18} {}\n", each.name, each.wrong);
  return print(options, rows, table);
}

/// From the least limit that does to where more memory changes nothing.
int sweepMemory(const CommandOptions &options) {
  constexpr int kPoints = 9;
  std::vector<std::string> unlimited = options.set;
  unlimited.push_back("schedule=auto");
  unlimited.push_back("memory.limit=1048576TiB");
  Compiled compiled;
  Failure failure;
  if (!compile(options.input, unlimited, Stage::Plan, compiled, failure))
    return fail(options, failure);
  plan::Bytes most = 0;
  for (const simulate::RankResult &rank : compiled.walks.front().ranks)
    most = std::max(most, rank.peak);
  const plan::Bytes least = std::min(schedule::leastLimit(compiled.problems.front()), most);
  std::vector<Row> rows;
  {
    const Progress progress(!options.json);
    for (int i = 0; i != kPoints; ++i) {
      const auto limit = plan::Bytes(least + __int128(most - least) * i / (kPoints - 1));
      if (!rows.empty() && rows.back().name == plan::bytesText(limit))
        continue;
      progress.say(fmt::format("under {} …", plan::bytesText(limit)));
      Row made;
      made.name = plan::bytesText(limit);
      if (row(options, {"schedule=auto", fmt::format("memory.limit={}B", limit)}, made))
        rows.push_back(std::move(made));
    }
  }
  plan::Time longest = 1;
  for (const Row &each : rows)
    longest = std::max(longest, each.certificate.span);
  std::string table = fmt::format("{:>14} {:>14} {:>14} {:>9}\n", "limit", "span", "bound", "gap");
  for (const Row &each : rows) {
    if (!each.wrong.empty()) {
      table += fmt::format("{:>14} {}\n", each.name, each.wrong);
      continue;
    }
    // What is proven to be needed, then what the plan takes beyond it.
    constexpr int kWidth = 40;
    const auto length = [&](plan::Time time) { return size_t(__int128(time) * kWidth / longest); };
    const size_t bound = length(each.certificate.spanLowerBound), span = length(each.certificate.span);
    table += fmt::format("{:>14} {:>14} {:>14} {:>7.2f} %  {}{}\n", each.name, plan::timeText(each.certificate.span),
                         plan::timeText(each.certificate.spanLowerBound),
                         100 * gap(each.certificate.span, each.certificate.spanLowerBound), std::string(bound, '='),
                         std::string(std::max(span, bound) - bound, '+'));
  }
  return print(options, rows, table + "= proven to be needed, + what the plan takes beyond it\n");
}

} // namespace

int searchCommand(const CommandOptions &options) {
  if (isPlan(options.input))
    return fail(options, options.input, Status::input("expected a spec, found a plan"));
  // What is wrong with the spec itself is said once, as for every command.
  Compiled design;
  Failure failure;
  if (!compile(options.input, options.set, Stage::Design, design, failure))
    return fail(options, failure);
  return options.sweep.empty() ? searchSchedules(options) : sweepMemory(options);
}

} // namespace pipec
