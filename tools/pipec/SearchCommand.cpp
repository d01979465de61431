// pipec search: every schedule of the catalogue that the spec allows, and what the search finds, compiled and put in
// order; or what the search finds under one memory limit after another.
#include "compiler/driver/Compile.h"
#include "compiler/driver/Files.h"
#include "runtime/plan/Text.h"
#include "tools/pipec/Commands.h"
#include "tools/pipec/ExactSearch.h"
#include "tools/pipec/Inputs.h"
#include "tools/pipec/SearchRows.h"

#include <fmt/format.h>

#include <algorithm>

namespace pipec {

namespace {

int searchSchedules(const CommandOptions &options, const Compiled &spec) {
  const schedule::Objective objective = spec.objective;
  std::vector<Row> rows;
  {
    const Progress progress(!options.json);
    rows = scheduleRows(options, objective, spec.stages, progress);
  }
  sortRows(rows, objective);
  const bool any = rows.empty() || rows.front().wrong.empty();
  const int printed = print(options, rows, tableOf(rows, objective));
  return any ? printed : int(Code::Check);
}

/// A plan for a smaller limit fits this limit too. Where that plan is the shorter one it is taken, with the bound of
/// this limit.
void keepShorter(const Row &smaller, Row &made, schedule::Objective objective) {
  if (!smaller.wrong.empty() || !made.wrong.empty() ||
      timeOf(smaller.certificate, objective) >= timeOf(made.certificate, objective))
    return;
  made.certificate.makespan = smaller.certificate.makespan;
  made.certificate.span = smaller.certificate.span;
  made.bubble = smaller.bubble;
  made.peak = smaller.peak;
}

/// From the least limit that does to where more memory changes nothing.
int sweepMemory(const CommandOptions &options, schedule::Objective objective) {
  constexpr int kPoints = 9;
  std::vector<std::string> unlimited = options.set;
  unlimited.push_back(autoFor(objective));
  unlimited.push_back("memory.limit=1048576TiB");
  Compiled compiled, needs;
  Failure failure;
  if (!compile(options.input, unlimited, Stage::Plan, compiled, failure) ||
      !compile(options.input, unlimited, Stage::Least, needs, failure))
    return fail(options, failure);
  plan::Bytes most = 0;
  for (const simulate::RankResult &rank : compiled.walks.front().ranks)
    most = std::max(most, rank.peak);
  most = std::max(most, needs.leastLimit);
  std::vector<plan::Bytes> limits;
  for (int i = 0; i != kPoints; ++i) {
    const auto limit = plan::Bytes(needs.leastLimit + __int128(most - needs.leastLimit) * i / (kPoints - 1));
    if (!limits.empty() && plan::bytesText(limits.back()) == plan::bytesText(limit))
      limits.pop_back();
    limits.push_back(limit);
  }
  std::vector<Row> rows;
  {
    const Progress progress(!options.json);
    for (const plan::Bytes limit : limits) {
      progress.say(fmt::format("under {} …", plan::bytesText(limit)));
      Row made;
      made.name = plan::bytesText(limit);
      if (!row(options, {autoFor(objective), fmt::format("memory.limit={}B", limit)}, made))
        continue;
      if (!rows.empty())
        keepShorter(rows.back(), made, objective);
      if (!rows.empty() && !rows.back().wrong.empty()) // what it takes to run may be more than the least
        rows.pop_back();
      rows.push_back(std::move(made));
    }
  }
  plan::Time longest = 1;
  for (const Row &each : rows)
    longest = std::max(longest, timeOf(each.certificate, objective));
  std::string table = fmt::format("{:>14} {:>14} {:>14} {:>9}\n", "limit",
                                  objective == schedule::Objective::Span ? "span" : "makespan", "bound", "gap");
  for (const Row &each : rows) {
    if (!each.wrong.empty()) {
      table += fmt::format("{:>14} {}\n", each.name, each.wrong);
      continue;
    }
    // What is proven to be needed, then what the plan takes beyond it.
    constexpr int kWidth = 40;
    const auto length = [&](plan::Time time) { return size_t(__int128(time) * kWidth / longest); };
    const plan::Time takes = timeOf(each.certificate, objective), least = boundOf(each.certificate, objective);
    const size_t bound = length(least), all = std::max(length(takes), bound);
    table +=
        fmt::format("{:>14} {:>14} {:>14} {:>7.2f} %  {}{}\n", each.name, plan::timeText(takes), plan::timeText(least),
                    100 * gap(takes, least), std::string(bound, '='), std::string(all - bound, '+'));
  }
  return print(options, rows, table + "= proven to be needed, + what the plan takes beyond it\n");
}

} // namespace

int searchCommand(const CommandOptions &options) {
  if (Status status = expectKind(options.input, "a spec", {FileKind::Spec}); !status.ok())
    return fail(options, options.input, status);
  if (options.output == kStandard)
    return fail(options, options.input, Status::usage("the table goes to standard output; name a file with -o"));
  if (options.exact)
    return searchExactly(options);
  // What is wrong with the spec itself is said once, as for every command.
  Compiled checked;
  Failure failure;
  if (!compile(options.input, options.set, Stage::Checked, checked, failure))
    return fail(options, failure);
  return options.sweep.empty() ? searchSchedules(options, checked) : sweepMemory(options, checked.objective);
}

} // namespace pipec
