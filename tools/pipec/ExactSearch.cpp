// The order that the exact search ends with goes through the compiler as everybody's order file does, so its row says
// what its plan takes; what is proven, on links that never queue, stands below the table.
#include "tools/pipec/ExactSearch.h"

#include "compiler/driver/Compile.h"
#include "compiler/schedule/evaluate/Evaluate.h"
#include "compiler/schedule/exact/Exact.h"
#include "compiler/schedule/overlap/Pairing.h"
#include "compiler/torch/OrderCells.h"
#include "compiler/torch/TorchCsv.h"
#include "runtime/plan/Text.h"
#include "runtime/plan/Units.h"
#include "tools/pipec/Inputs.h"
#include "tools/pipec/SearchRows.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <map>

namespace pipec {

namespace {

/// Words as an order file: compute_only.
std::string orderOf(const schedule::Words &words) {
  schedule::OrderCells cells;
  for (const schedule::Word &word : words) {
    std::vector<schedule::Cell> &row = cells.rows.emplace_back();
    struct Done {
      int32_t forwards = 0, backwards = 0;
      std::deque<int32_t> halves; // of whose microbatches W is to come
    };
    std::map<int32_t, Done> done;
    for (const schedule::Op &op : word) {
      schedule::Cell cell;
      Done &own = done[op.stage];
      cell.action = schedule::actionOf(schedule::kindOf(op.letter));
      cell.opensPair = op.overlapped;
      cell.stage = op.stage;
      if (op.letter == schedule::Letter::B)
        own.halves.push_back(own.backwards);
      if (op.letter == schedule::Letter::W) {
        cell.microbatch = own.halves.front();
        own.halves.pop_front();
      } else {
        cell.microbatch = op.letter == schedule::Letter::F ? own.forwards++ : own.backwards++;
      }
      row.push_back(cell);
    }
  }
  return emit::torchCsv(cells);
}

/// A file of its own, gone with it.
class Scratch {
public:
  Scratch() {
    std::error_code error;
    std::string name = (std::filesystem::temp_directory_path(error) / "pipec-order-XXXXXX").string();
    if (const int file = mkstemp(name.data()); file >= 0) {
      close(file);
      path = name;
    }
  }
  ~Scratch() {
    if (!path.empty())
      std::remove(path.c_str());
  }
  Scratch(const Scratch &) = delete;
  Scratch &operator=(const Scratch &) = delete;

  std::string path; // empty: there is none
};

Status milliseconds(const std::string &time, int64_t &milliseconds) {
  const units::Quantity quantity = units::parseDuration(time);
  if (!quantity.ok())
    return Status::usage("--time: " + quantity.error);
  milliseconds = quantity.value / 1'000'000'000;
  if (milliseconds < 1)
    return Status::usage("--time: expected 1ms or more, found " + time);
  return {};
}

/// The row of the order; false after an error.
bool rowOf(const CommandOptions &options, const schedule::Exact &found, Row &made, int &code) {
  const std::string order = orderOf(found.words);
  Scratch scratch;
  CommandOptions file = options;
  file.output = options.output.empty() ? scratch.path : options.output;
  if (file.output.empty())
    return code = fail(options, options.input, Status::input("no temporary file could be made")), false;
  code = write(file, order);
  if (code != 0)
    return false;
  made.name = "exact";
  const std::string path = std::filesystem::absolute(file.output).string();
  if (!row(options, {"schedule={name: order, file: " + nlohmann::json(path).dump() + "}"}, made) && made.wrong.empty())
    made.wrong = "its order file was refused";
  return true;
}

/// The words of the row `auto` as an order of one of these problems, where it is.
std::optional<schedule::KnownOrder> knownOf(const std::vector<Row> &rows,
                                            const std::vector<schedule::Problem> &problems) {
  const auto own = std::find_if(rows.begin(), rows.end(), [](const Row &each) { return each.name == "auto"; });
  if (own == rows.end() || !own->wrong.empty())
    return std::nullopt;
  for (size_t i = 0; i < problems.size(); ++i)
    if (problems[i].rankOf == own->problem.rankOf && problems[i].backwardGroup == own->problem.backwardGroup &&
        schedule::verify(problems[i], own->words).empty())
      return schedule::KnownOrder{i, own->words};
  return std::nullopt;
}

} // namespace

int searchExactly(const CommandOptions &options) {
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  if (!schedule::canDecide())
    return fail(options, options.input,
                Status::usage("this pipec was built without Z3, which --exact needs: install libz3-dev, configure and "
                              "build again"));
  schedule::ExactOptions exact;
  if (Status status = milliseconds(options.time, exact.milliseconds); !status.ok())
    return fail(options, options.input, status);
  Compiled space;
  Failure failure;
  space.output = options.output;
  if (!compile(options.input, options.set, Stage::Space, space, failure))
    return fail(options, failure);
  exact.objective = space.objective;
  const bool isSpan = exact.objective == schedule::Objective::Span;
  std::vector<Row> rows;
  std::optional<schedule::Exact> found;
  {
    const Progress progress(!options.json);
    rows = scheduleRows(options, exact.objective, space.stages, progress);
    exact.start = knownOf(rows, space.problems);
    exact.milliseconds -= int64_t(1000 * seconds());
    exact.said = [&](const schedule::Exact &now, schedule::Time asking) {
      progress.say(fmt::format("{:.1f} s: {} found, {} proven to be needed, asking for {} …", seconds(),
                               plan::timeText(now.time), plan::timeText(now.bound), plan::timeText(asking)));
    };
    progress.say("searching …");
    found = schedule::exact(space.problems, exact);
  }
  if (!found) { // the message of a limit that nothing fits into
    std::vector<std::string> set = options.set;
    set.push_back(autoFor(exact.objective));
    return compile(options.input, set, Stage::Plan, space, failure) ? 0 : fail(options, failure);
  }
  Row own;
  int code = 0;
  if (!rowOf(options, *found, own, code))
    return code;
  const double took = seconds();
  rows.push_back(std::move(own));
  for (Row &each : rows)
    if (each.name == "exact" || each.name == "auto") // of all placements that the spec allows
      (isSpan ? each.certificate.spanLowerBound : each.certificate.lowerBound) = found->bound;
  const plan::Time planned = timeOf(rows.back().certificate, exact.objective);
  const bool asPlanned = rows.back().wrong.empty() && planned > found->time;
  sortRows(rows, exact.objective);
  const bool optimal = found->time <= found->bound;
  const std::string verdict = optimal ? "optimal, proven"
                                      : fmt::format("at least {} proven, a gap of {:.2f} % is left{}",
                                                    plan::timeText(found->bound), 100 * gap(found->time, found->bound),
                                                    !found->tooLarge ? ""
                                                    : schedule::hasPairs(space.problems.front())
                                                        ? "; of orders with overlapped pairs no more can be asked"
                                                        : "; the problem is too large to ask for more");
  const std::string text = fmt::format(
      "{}exact: {} {} in {:.1f} s: {}{}\n", tableOf(rows, exact.objective), isSpan ? "span" : "makespan",
      plan::timeText(found->time), took, verdict,
      asPlanned ? fmt::format("; on links that queue and with its buffers the plan takes {}", plan::timeText(planned))
                : "");
  const nlohmann::ordered_json json = {{"objective", isSpan ? "span" : "makespan"},
                                       {"time_ms", milliseconds(found->time)},
                                       {"plan_time_ms", milliseconds(planned)},
                                       {"proven_lower_bound_ms", milliseconds(found->bound)},
                                       {"gap", gap(found->time, found->bound)},
                                       {"optimal", optimal},
                                       {"verdict", verdict},
                                       {"questions", found->questions},
                                       {"seconds", took}};
  return print(options, rows, text, {{"exact", json}});
}

} // namespace pipec
