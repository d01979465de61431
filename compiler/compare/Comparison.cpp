#include "compiler/compare/Comparison.h"

#include "compiler/driver/Plans.h"
#include "compiler/emit/BoundsHold.h"
#include "compiler/schedule/catalogue/Catalogue.h"
#include "runtime/plan/Text.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <tuple>

namespace pipec {

std::string autoFor(schedule::Objective objective) {
  return objective == schedule::Objective::Span ? "schedule=auto" : "schedule={name: auto, objective: makespan}";
}

bool compileRow(const Source &source, const std::vector<std::string> &over, Row &made) {
  std::vector<std::string> set = source.set;
  set.insert(set.end(), over.begin(), over.end());
  Compiled compiled;
  compiled.stop = source.stop;
  Failure failure;
  if (!compile(source.path, set, Stage::Plan, compiled, failure, Said::Nothing)) {
    made.wrong = failure.message;
    return failure.code == Code::Check && !source.stop.stop_requested();
  }
  emit::PlanReport figures;
  if (Status status = figuresOf(compiled, figures); !status.ok()) {
    made.wrong = status.message;
    return true;
  }
  const emit::Report &own = figures.variants.front();
  made.certificate = own.certificate;
  made.cut = own.cut;
  made.layers = compiled.plan.variants.front().cut;
  made.recompute = own.recompute;
  made.bubble = own.spanBubbleRate;
  made.peak = *std::max_element(own.peak.begin(), own.peak.end());
  made.problem = std::move(compiled.problems.front());
  made.wholeAsParts = compiled.wholeAsParts;
  made.ofOwnPortions = compiled.ofOwnPortions;
  made.words = std::move(compiled.words.front());
  made.stages = made.problem.stagesOfCopy();
  return true;
}

std::vector<Row> compareSchedules(const Source &source, const Compiled &checked, const Say &say) {
  std::vector<Row> rows;
  const auto attempt = [&](const std::string &name, const std::vector<std::string> &over) {
    if (source.stop.stop_requested())
      return;
    say(fmt::format("trying {} …", name));
    Row made;
    made.name = name;
    if (!compileRow(source, over, made))
      return;
    if (made.wrong.empty() && checked.stages != 0 && made.stages != checked.stages)
      made.wrong = fmt::format("is of {} stages, the spec of {}: the same costs would be another model's", made.stages,
                               checked.stages);
    rows.push_back(std::move(made));
  };
  attempt("auto", {autoFor(checked.objective)});
  if (checked.choosesCut && checked.stages == 0)
    attempt("auto", {autoFor(checked.objective), "pipeline.stages_per_rank=2"});
  for (const schedule::Entry &entry : schedule::catalogue())
    attempt(std::string(entry.name), {fmt::format("schedule={}", entry.name)});
  return rows;
}

/// A plan for a smaller limit fits this limit too. Where that plan is the shorter one it is taken, with the bound of
/// this limit.
static void keepShorter(const Row &smaller, Row &made, schedule::Objective objective) {
  if (!smaller.wrong.empty() || !made.wrong.empty() ||
      timeOf(smaller.certificate, objective) >= timeOf(made.certificate, objective))
    return;
  made.certificate.makespan = smaller.certificate.makespan;
  made.certificate.span = smaller.certificate.span;
  made.bubble = smaller.bubble;
  made.peak = smaller.peak;
  made.recompute = smaller.recompute;
}

bool sweepMemory(const Source &source, schedule::Objective objective, const Say &say, Sweep &sweep, Failure &failure) {
  constexpr int kPoints = 9;
  std::vector<std::string> unlimited = source.set;
  unlimited.push_back(autoFor(objective));
  unlimited.push_back("memory.limit=1048576TiB");
  Compiled compiled, needs;
  compiled.stop = source.stop;
  if (!compile(source.path, unlimited, Stage::Plan, compiled, failure) ||
      !compile(source.path, unlimited, Stage::Least, needs, failure))
    return false;
  plan::Bytes most = needs.leastLimit;
  for (const simulate::PlaceResult &rank : compiled.walks.front().places)
    most = std::max(most, rank.peak);
  std::vector<plan::Bytes> limits;
  for (int i = 0; i != kPoints; ++i) {
    const auto limit = plan::Bytes(needs.leastLimit + __int128(most - needs.leastLimit) * i / (kPoints - 1));
    if (!limits.empty() && plan::bytesText(limits.back()) == plan::bytesText(limit))
      limits.pop_back();
    limits.push_back(limit);
  }
  for (const plan::Bytes limit : limits) {
    if (source.stop.stop_requested())
      break;
    say(fmt::format("under {} …", plan::bytesText(limit)));
    std::vector<std::string> over{autoFor(objective), fmt::format("memory.limit={}B", limit)};
    const auto add = [&](std::vector<Row> &rows) {
      Row made;
      made.name = plan::bytesText(limit);
      if (!compileRow(source, over, made))
        return false;
      if (!rows.empty())
        keepShorter(rows.back(), made, objective);
      rows.push_back(std::move(made));
      return true;
    };
    if (!add(sweep.rows))
      continue;
    over.push_back("recompute=none");
    if (compiled.choosesRecompute && !add(sweep.without)) {
      sweep.rows.pop_back();
      continue;
    }
    if (const size_t last = sweep.rows.size() - 1; last > 0 && !sweep.rows[last - 1].wrong.empty()) {
      // What it takes to run may be more than the least.
      sweep.rows.erase(sweep.rows.begin() + ptrdiff_t(last - 1));
      if (compiled.choosesRecompute)
        sweep.without.erase(sweep.without.begin() + ptrdiff_t(last - 1));
    }
  }
  return true;
}

Status checkRows(const std::vector<Row> &rows) {
  std::vector<emit::Claim> claims;
  for (const Row &each : rows) {
    if (each.wrong.starts_with("internal: "))
      return Status::check(fmt::format("{}: {}", each.name, each.wrong));
    if (each.wrong.empty())
      claims.push_back({.name = each.name,
                        .certificate = &each.certificate,
                        .problem = each.ofOwnPortions ? nullptr : &each.problem,
                        .cut = each.layers,
                        .wholeAsParts = each.wholeAsParts,
                        .ofAllPlacements = each.name == "auto" || each.name == "exact",
                        .isOneSpec = true});
  }
  return emit::checkBounds(claims);
}

void sortRows(std::vector<Row> &rows, schedule::Objective objective) {
  std::sort(rows.begin(), rows.end(), [&](const Row &a, const Row &b) {
    return std::tuple(!a.wrong.empty(), timeOf(a.certificate, objective), a.peak, std::string_view(a.name)) <
           std::tuple(!b.wrong.empty(), timeOf(b.certificate, objective), b.peak, std::string_view(b.name));
  });
}

} // namespace pipec
