#include "tools/pipec/SearchRows.h"

#include "compiler/driver/Compile.h"
#include "compiler/schedule/catalogue/Catalogue.h"
#include "runtime/plan/Text.h"
#include "tools/commandline/Standard.h"
#include "tools/pipec/Inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <tuple>

namespace pipec {

namespace {

/// Which bound a row stands under depends on it.
const char *backwardOf(const Row &row) {
  return row.problem.backward == schedule::BackwardMode::Fused ? "fused" : "split";
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
  object["backward"] = backwardOf(row); // whose bounds these are
  const schedule::Problem &problem = row.problem;
  if (problem.memoryLimit != 0 && problem.withheld.empty())
    object["memory_limit_bytes"] = problem.memoryLimit;
  else if (problem.memoryLimit != 0) // a list by rank
    for (int32_t rank = 0; rank != problem.ranks; ++rank)
      object["memory_limit_bytes"].push_back(problem.limitOf(rank));
  return object;
}

} // namespace

void Progress::say(const std::string &what) const {
  if (shown)
    pipec::say("\r\x1b[K{}", what);
}

bool row(const CommandOptions &options, const std::vector<std::string> &over, Row &made) {
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
  made.problem = std::move(compiled.problems.front());
  made.words = std::move(compiled.words.front());
  made.stages = made.problem.stagesOfCopy();
  return true;
}

std::string autoFor(schedule::Objective objective) {
  return objective == schedule::Objective::Span ? "schedule=auto" : "schedule={name: auto, objective: makespan}";
}

std::vector<Row> scheduleRows(const CommandOptions &options, schedule::Objective objective, int32_t stages,
                              const Progress &progress) {
  std::vector<Row> rows;
  std::vector<std::string> names = {"auto"};
  for (const schedule::Entry &entry : schedule::catalogue())
    names.emplace_back(entry.name);
  for (const std::string &name : names) {
    progress.say(fmt::format("trying {} …", name));
    Row made;
    made.name = name;
    if (!row(options, {name == "auto" ? autoFor(objective) : "schedule=" + name}, made))
      continue;
    if (made.wrong.empty() && stages != 0 && made.stages != stages)
      made.wrong =
          fmt::format("is of {} stages, the spec of {}: the same costs would be another model's", made.stages, stages);
    rows.push_back(std::move(made));
  }
  return rows;
}

void sortRows(std::vector<Row> &rows, schedule::Objective objective) {
  std::sort(rows.begin(), rows.end(), [&](const Row &a, const Row &b) {
    return std::tuple(!a.wrong.empty(), timeOf(a.certificate, objective), a.peak, std::string_view(a.name)) <
           std::tuple(!b.wrong.empty(), timeOf(b.certificate, objective), b.peak, std::string_view(b.name));
  });
}

std::string tableOf(const std::vector<Row> &rows, schedule::Objective objective) {
  const Row *first = nullptr;
  bool several = false; // rows stand under bounds of their own
  for (const Row &each : rows)
    if (each.wrong.empty()) {
      first = first ? first : &each;
      several |= boundOf(each.certificate, objective) != boundOf(first->certificate, objective) ||
                 each.problem.backward != first->problem.backward;
    }
  std::string table = fmt::format("{:<18} {:>14} {:>9} {:>14} {:>14} {:>9}{}\n", "schedule", "span", "bubble",
                                  "makespan", "peak", "gap", several ? "  of its bound" : "");
  for (const Row &each : rows) {
    if (!each.wrong.empty()) {
      table += fmt::format("{:<18} {}\n", each.name, each.wrong);
      continue;
    }
    const plan::Time bound = boundOf(each.certificate, objective);
    table +=
        fmt::format("{:<18} {:>14} {:>7.2f} % {:>14} {:>14} {:>7.2f} %{}\n", each.name,
                    plan::timeText(each.certificate.span), 100 * each.bubble, plan::timeText(each.certificate.makespan),
                    plan::bytesText(each.peak), 100 * gap(timeOf(each.certificate, objective), bound),
                    several ? fmt::format("  {}, {}", plan::timeText(bound), backwardOf(each)) : "");
  }
  return table;
}

int print(const CommandOptions &options, const std::vector<Row> &rows, const std::string &table,
          const nlohmann::ordered_json &beside) {
  if (options.json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Row &each : rows)
      list.push_back(json(each));
    nlohmann::ordered_json object = {{"schedules", list}};
    object.update(beside);
    fmt::print("{}", jsonText(object));
  } else {
    fmt::print("{}", table);
  }
  const bool anyFits = std::any_of(rows.begin(), rows.end(), [](const Row &each) { return each.wrong.empty(); });
  return int(anyFits ? Code::Ok : Code::Check);
}

} // namespace pipec
