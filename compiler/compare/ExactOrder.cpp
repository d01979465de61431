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

/// Whether the bound of a problem speaks of a row.
bool hasBackwardsOf(const Row &row, const schedule::Problem &problem) {
  return row.wrong.empty() && (row.wholeAsParts || row.problem.backward == problem.backward) &&
         row.problem.mixed == problem.mixed;
}

/// The words of the row `auto`, where these words are an order of one of the problems. An order with whole backwards is
/// no order of a split problem: an order file gives a whole backward the cost of its own, not that of its two parts.
std::optional<schedule::KnownOrder> knownOf(const std::vector<Row> &rows,
                                            const std::vector<schedule::Problem> &problems) {
  const auto own = std::find_if(rows.begin(), rows.end(), [](const Row &each) { return each.name == "auto"; });
  if (own == rows.end() || !own->wrong.empty())
    return std::nullopt;
  for (size_t i = 0; i < problems.size(); ++i)
    if (own->problem.backward == problems[i].backward && own->problem.mixed == problems[i].mixed &&
        problems[i].rankOf == own->problem.rankOf && problems[i].backwardGroup == own->problem.backwardGroup &&
        schedule::verify(problems[i], own->words).empty())
      return schedule::KnownOrder{i, own->words};
  return std::nullopt;
}

/// The solver knows whole passes that follow each other and take what the problem says.
std::string unaskedOf(const Compiled &space) {
  return schedule::hasPairs(space.problems.front()) ? "orders with overlapped pairs"
         : space.degree > 1                         ? "what replicas exchange beside passes"
         : space.isSharded                          ? "what shards win by beginning and ending passes apart"
                                                    : "";
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
  made.unasked = unaskedOf(space);
  made.rows = compareSchedules(source, space, say);
  schedule::ExactOptions options;
  options.objective = made.objective;
  options.start = knownOf(made.rows, space.problems);
  options.milliseconds = milliseconds - int64_t(1000 * seconds());
  options.stop = source.stop;
  options.said = [&](const schedule::Exact &now, schedule::Time asking) {
    say(fmt::format("{:.1f} s: {} found, {} proven to be needed, asking for {} …", seconds(), plan::timeText(now.time),
                    plan::timeText(now.bound.picoseconds()), plan::timeText(asking)));
  };
  say("searching …");
  std::vector<schedule::ExactProblem> problems;
  for (size_t i = 0; i != space.problems.size(); ++i)
    problems.push_back({space.problems[i], space.proofs[i]});
  made.found = schedule::exact(problems, options);
  if (!made.found && source.stop.stop_requested())
    return true;
  if (!made.found) { // the message of `auto` says which limit would do
    Source automatic = source;
    automatic.set.push_back(autoFor(made.objective));
    sortRows(made.rows, made.objective);
    return compile(automatic.path, automatic.set, Stage::Plan, space, failure);
  }
  made.order = orderOf(made.found->words);
  Row own = rowOf({source.path, source.set, source.output}, made.order); // of an order that is known: to its end
  made.seconds = seconds();
  if (own.wrong.empty())
    made.planned = timeOf(own.certificate, made.objective);
  made.taken = made.planned != 0 && (space.isSharded || space.degree > 1) ? made.planned : made.found->time;
  made.rows.push_back(std::move(own));
  const schedule::Problem &asked = space.problems.front();
  const auto isAsked = [&](const Row &row) { return hasBackwardsOf(row, asked); };
  for (Row &each : made.rows) {
    if ((each.name == "exact" || each.name == "auto") && isAsked(each)) // of all placements that the spec allows
      (made.objective == schedule::Objective::Span ? each.certificate.spanLowerBound : each.certificate.lowerBound) =
          made.found->bound;
    made.isBeaten |= each.wrong.empty() && !isAsked(each) && timeOf(each.certificate, made.objective) < made.taken;
  }
  sortRows(made.rows, made.objective);
  return true;
}

} // namespace pipec
