// `pipec search`: compiles every schedule of the catalogue that the spec allows, and what the search finds, and puts
// them in order; or what the search finds under one memory limit after another.
#include "compiler/compare/DataParallel.h"
#include "compiler/compare/ExactOrder.h"
#include "compiler/driver/Compile.h"
#include "compiler/driver/Files.h"
#include "runtime/plan/Text.h"
#include "runtime/plan/Units.h"
#include "tools/pipec/Commands.h"
#include "tools/pipec/Inputs.h"
#include "tools/pipec/ProgressLine.h"
#include "tools/pipec/SearchRows.h"
#include "tools/pipec/Stopping.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

namespace pipec {

namespace {

/// The source of a search, and what ends the search early.
Source sourceOf(const CommandOptions &options, const Stopping &stopping) {
  return {options.input, options.set, options.output, stopping.token()};
}

/// Adds to the answer, for people and for programs, that the search was stopped; nothing if it was not.
void noteStop(const Stopping &stopping, std::string &table, nlohmann::ordered_json &beside) {
  const std::string by = stopping.by();
  if (by.empty())
    return;
  table += fmt::format("stopped by {}: more time may find more, and better\n", by);
  beside["stopped"] = by;
}

/// Reports that a search was stopped before there was anything to show.
int nothingYet(const CommandOptions &options, const Stopping &stopping) {
  return fail(options, options.input,
              Status::input(fmt::format("stopped by {} before anything was found: give it more time", stopping.by())));
}

int searchSchedules(const CommandOptions &options, const Compiled &spec, const Stopping &stopping) {
  const schedule::Objective objective = spec.objective;
  std::vector<Row> rows;
  {
    ProgressLine progress(!options.json, Shown::AtOnce);
    rows = compareSchedules(sourceOf(options, stopping), spec, std::ref(progress));
  }
  if (Status status = checkRows(rows); !status.ok())
    return fail(options, options.input, status);
  if (rows.empty() && stopping.token().stop_requested())
    return nothingYet(options, stopping);
  sortRows(rows, objective);
  std::string table = tableOf(rows, objective);
  nlohmann::ordered_json beside = nlohmann::ordered_json::object();
  noteStop(stopping, table, beside);
  return print(options, rows, table, beside);
}

/// Searches widths of layers: the spec's own, and others.
int searchWidths(const CommandOptions &options, const Stopping &stopping) {
  std::vector<BurstRow> rows;
  Failure failure;
  {
    ProgressLine progress(!options.json, Shown::AtOnce);
    if (!compareBursts(sourceOf(options, stopping), std::ref(progress), rows, failure))
      return fail(options, failure);
  }
  std::string table = tableOf(rows);
  nlohmann::ordered_json beside = nlohmann::ordered_json::object();
  noteStop(stopping, table, beside);
  return print(options, rows, table, beside);
}

/// Tries memory limits from the lowest feasible one up to the point where more memory changes nothing.
int sweepMemory(const CommandOptions &options, schedule::Objective objective, const Stopping &stopping) {
  Sweep sweep;
  Failure failure;
  {
    ProgressLine progress(!options.json, Shown::AtOnce);
    if (!sweepMemory(sourceOf(options, stopping), objective, std::ref(progress), sweep, failure))
      return fail(options, failure);
  }
  const std::vector<Row> &rows = sweep.rows;
  if (rows.empty() && stopping.token().stop_requested())
    return nothingYet(options, stopping);
  for (const std::vector<Row> *each : {&sweep.rows, &sweep.without})
    if (Status status = checkRows(*each); !status.ok())
      return fail(options, options.input, status);
  plan::Time longest = 1;
  for (const std::vector<Row> *each : {&sweep.rows, &sweep.without})
    for (const Row &row : *each)
      longest = std::max(longest, timeOf(row.certificate, objective));
  const bool both = !sweep.without.empty();
  const auto without = [&](size_t at) {
    return !both                             ? ""
           : sweep.without[at].wrong.empty() ? plan::timeText(timeOf(sweep.without[at].certificate, objective))
                                             : "does not fit";
  };
  std::string table = fmt::format("{:>14} {:>14} {:>14} {:>9}{}\n", "limit",
                                  objective == schedule::Objective::Span ? "span" : "makespan", "bound", "gap",
                                  both ? fmt::format("  {:>14}  {:<16}", "keeping all", "stages run again") : "");
  for (size_t at = 0; at != rows.size(); ++at) {
    const Row &each = rows[at];
    if (!each.wrong.empty()) {
      table += fmt::format("{:>14} {}\n", each.name, each.wrong);
      continue;
    }
    // The proven lower bound, then what the plan takes beyond it.
    constexpr int kWidth = 40;
    const auto length = [&](plan::Time time) { return size_t(__int128(time) * kWidth / longest); };
    const plan::Time takes = timeOf(each.certificate, objective);
    const plan::LeastTime least = boundOf(each.certificate, objective);
    const size_t bound = length(least.picoseconds()), all = std::max(length(takes), bound);
    const size_t kept =
        both && sweep.without[at].wrong.empty() ? length(timeOf(sweep.without[at].certificate, objective)) : 0;
    table += fmt::format(
        "{:>14} {:>14} {:>14} {:>7.2f} %{}  {}{}{}\n", each.name, plan::timeText(takes),
        plan::timeText(least.picoseconds()), 100 * least.gap(takes),
        both ? fmt::format("  {:>14}  {:<16}", without(at), fmt::format("[{}]", fmt::join(each.recompute, ", "))) : "",
        std::string(bound, '='), std::string(all - bound, '+'), std::string(std::max(kept, all) - all, '.'));
  }
  table += fmt::format("= proven to be needed, + what the plan takes beyond it{}\n",
                       both ? ", . and what one that keeps all takes" : "");
  nlohmann::ordered_json beside = nlohmann::ordered_json::object();
  for (const Row &each : sweep.without)
    beside["without_recompute"].push_back(jsonOf(each));
  noteStop(stopping, table, beside);
  return print(options, rows, table, beside);
}

/// Compares the step time under each policy of exchanging gradients.
int sweepPolicies(const CommandOptions &options, const Stopping &stopping) {
  std::vector<PolicyRow> rows;
  Failure failure;
  {
    ProgressLine progress(!options.json, Shown::AtOnce);
    if (!sweepDataParallel(sourceOf(options, stopping), std::ref(progress), rows, failure))
      return fail(options, failure);
  }
  if (Status status = checkRows(rows); !status.ok())
    return fail(options, options.input, status);
  if (rows.empty() && stopping.token().stop_requested())
    return nothingYet(options, stopping);
  std::string stopped;
  nlohmann::ordered_json beside = nlohmann::ordered_json::object();
  noteStop(stopping, stopped, beside);
  const bool any = std::any_of(rows.begin(), rows.end(), [](const PolicyRow &row) { return row.wrong.empty(); });
  const int code = int(any ? Code::Ok : Code::Check);
  const auto most = [](const std::vector<int64_t> &counts) { return *std::max_element(counts.begin(), counts.end()); };
  if (options.json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const PolicyRow &row : rows) {
      if (!row.wrong.empty()) {
        list.push_back({{"policy", row.policy}, {"error", row.wrong}});
        continue;
      }
      list.push_back({{"policy", row.policy},
                      {"span_ms", milliseconds(row.span)},
                      {"span_lower_bound_ms", milliseconds(row.bound.picoseconds())},
                      {"exposed_ms", milliseconds(row.exposed)},
                      {"collectives", row.collectives}});
      if (row.bundle >= 0)
        list.back()["bundle_bytes"] = row.bundle;
    }
    nlohmann::ordered_json object = {{"policies", list}};
    object.update(beside);
    fmt::print("{}", jsonText(object));
    return code;
  }
  fmt::print("{:<15} {:>14} {:>9} {:>14} {:>12}  {}\n", "policy", "span", "gap", "exposed", "collectives", "bundles");
  for (const PolicyRow &row : rows)
    if (!row.wrong.empty())
      fmt::print("{:<15} {}\n", row.policy, row.wrong);
    else
      fmt::print("{:<15} {:>14} {:>7.2f} % {:>14} {:>12}  {}\n", row.policy, plan::timeText(row.span),
                 100 * row.bound.gap(row.span), plan::timeText(row.exposed), most(row.collectives),
                 row.bundle < 0    ? ""
                 : row.bundle == 0 ? "a layer each"
                                   : "below " + plan::bytesText(row.bundle));
  return code;
}

std::string verdictOf(const ExactOrder &exact) {
  const schedule::Exact &found = *exact.found;
  if (found.bound.isReachedBy(exact.taken))
    return exact.isBeaten ? "optimal, proven, of orders with such backwards; others take less" : "optimal, proven";
  return fmt::format("at least {} proven, a gap of {:.2f} % is left{}", plan::timeText(found.bound.picoseconds()),
                     100 * found.bound.gap(exact.taken),
                     !exact.unasked.empty()
                         ? "; of " + exact.unasked + " no more can be asked, so no order is proven to be the best"
                     : found.tooLarge ? "; the problem is too large to ask for more"
                                      : "");
}

/// Prints the table with the best order that could be proven within the time limit, and below the table what is proven.
int searchExactly(const CommandOptions &options, const Stopping &stopping) {
  if (!schedule::canDecide())
    return fail(options, options.input,
                Status::usage("this pipec was built without Z3, which --exact needs: install libz3-dev, configure and "
                              "build again"));
  constexpr const char *kUsual = "10s";
  int64_t time = 0;
  if (Status status = readTime(options.time.empty() ? kUsual : options.time, time); !status.ok())
    return fail(options, options.input, status);
  ExactOrder exact;
  Failure failure;
  {
    ProgressLine progress(!options.json, Shown::AtOnce);
    if (!searchExactly(sourceOf(options, stopping), time, std::ref(progress), exact, failure))
      return fail(options, failure);
  }
  if (Status status = checkRows(exact.rows); !status.ok())
    return fail(options, options.input, status);
  if (exact.rows.empty() && stopping.token().stop_requested())
    return nothingYet(options, stopping);
  const std::string table = tableOf(exact.rows, exact.objective);
  std::string stopped;
  nlohmann::ordered_json beside = nlohmann::ordered_json::object();
  noteStop(stopping, stopped, beside);
  if (!exact.found)
    return print(options, exact.rows, table + stopped, beside);
  if (!options.output.empty())
    if (const int code = write(options, exact.order); code != 0)
      return code;
  const schedule::Exact &found = *exact.found;
  const char *objective = exact.objective == schedule::Objective::Span ? "span" : "makespan";
  const std::string verdict = verdictOf(exact);
  const std::string text = fmt::format(
      "{}exact: {} {} in {:.1f} s: {}{}\n{}", table, objective, plan::timeText(exact.taken), exact.seconds, verdict,
      exact.planned > exact.taken
          ? fmt::format("; on links that queue and with its buffers the plan takes {}", plan::timeText(exact.planned))
          : "",
      stopped);
  const nlohmann::ordered_json json = {{"objective", objective},
                                       {"time_ms", milliseconds(exact.taken)},
                                       {"plan_time_ms", milliseconds(exact.planned)},
                                       {"proven_lower_bound_ms", milliseconds(found.bound.picoseconds())},
                                       {"gap", found.bound.gap(exact.taken)},
                                       {"optimal", found.bound.isReachedBy(exact.taken)},
                                       {"verdict", verdict},
                                       {"questions", found.questions},
                                       {"seconds", exact.seconds}};
  beside["exact"] = json;
  return print(options, exact.rows, text, beside);
}

/// Runs the search. Returns the exit code if nothing interrupts it.
int search(const CommandOptions &options, const Stopping &stopping) {
  if (options.exact)
    return searchExactly(options, stopping);
  if (options.sweep == "data-parallel")
    return sweepPolicies(options, stopping);
  // Errors of the spec itself are printed once, as for every command.
  Compiled checked;
  Failure failure;
  if (!compile(options.input, options.set, Stage::Checked, checked, failure))
    return fail(options, failure);
  if (checked.isBurst)
    return options.sweep.empty()
               ? searchWidths(options, stopping)
               : fail(options, options.input,
                      Status::input("a sweep of memory limits searches for orders, found schedule burst"));
  return options.sweep.empty() ? searchSchedules(options, checked, stopping)
                               : sweepMemory(options, checked.objective, stopping);
}

} // namespace

int searchCommand(const CommandOptions &options) {
  if (Status status = expectKind(options.input, "a spec", {FileKind::Spec}); !status.ok())
    return fail(options, options.input, status);
  if (options.output == kStandard)
    return fail(options, options.input, Status::usage("the table goes to standard output; name a file with -o"));
  int64_t time = 0;
  if (Status status = readTime(options.time, time); !status.ok())
    return fail(options, options.input, status);
  const Stopping stopping(options.exact ? 0 : time, /*byInterrupt=*/true);
  const int code = search(options, stopping);
  return stopping.by() == "SIGINT" ? Stopping::kInterrupted : code;
}

} // namespace pipec
