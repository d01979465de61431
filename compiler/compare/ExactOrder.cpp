#include "compiler/compare/ExactOrder.h"

#include "compiler/driver/Files.h"
#include "compiler/schedule/overlap/Pairing.h"
#include "compiler/torch/OrderCells.h"
#include "compiler/torch/TorchCsv.h"
#include "runtime/plan/Text.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
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

Row rowOf(const Source &source, const std::string &order) {
  Row made;
  made.name = "exact";
  const std::string path = std::filesystem::absolute(source.path).string() + " (exact order)"; // made, not read
  keep(path, order);
  if (!compileRow(source, {"schedule={name: order, file: " + nlohmann::json(path).dump() + "}"}, made) &&
      made.wrong.empty())
    made.wrong = "its order was refused";
  return made;
}

} // namespace

bool searchExactly(const Source &source, int64_t milliseconds, const Say &say, ExactOrder &made, Failure &failure) {
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  Compiled space;
  space.output = source.output;
  if (!compile(source.path, source.set, Stage::Space, space, failure))
    return false;
  made.objective = space.objective;
  made.hasPairs = schedule::hasPairs(space.problems.front());
  made.rows = compareSchedules(source, space, say);
  schedule::ExactOptions options;
  options.objective = made.objective;
  options.start = knownOf(made.rows, space.problems);
  options.milliseconds = milliseconds - int64_t(1000 * seconds());
  options.said = [&](const schedule::Exact &now, schedule::Time asking) {
    say(fmt::format("{:.1f} s: {} found, {} proven to be needed, asking for {} …", seconds(), plan::timeText(now.time),
                    plan::timeText(now.bound), plan::timeText(asking)));
  };
  say("searching …");
  made.found = schedule::exact(space.problems, options);
  if (!made.found) { // the message of `auto` says which limit would do
    Source automatic = source;
    automatic.set.push_back(autoFor(made.objective));
    sortRows(made.rows, made.objective);
    return compile(automatic.path, automatic.set, Stage::Plan, space, failure);
  }
  made.order = orderOf(made.found->words);
  Row own = rowOf(source, made.order);
  made.seconds = seconds();
  if (own.wrong.empty())
    made.planned = timeOf(own.certificate, made.objective);
  made.rows.push_back(std::move(own));
  for (Row &each : made.rows)
    if (each.name == "exact" || each.name == "auto") // of all placements that the spec allows
      (made.objective == schedule::Objective::Span ? each.certificate.spanLowerBound : each.certificate.lowerBound) =
          made.found->bound;
  sortRows(made.rows, made.objective);
  return true;
}

} // namespace pipec
