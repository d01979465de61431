#include "tools/pipec/AdaptReport.h"

#include "runtime/adapt/AdaptJson.h"
#include "runtime/adapt/VirtualRun.h"
#include "runtime/plan/Text.h"
#include "tools/commandline/Standard.h"
#include "tools/pipec/Inputs.h"
#include "tools/pipec/SearchRows.h"

#include <fmt/format.h>

#include <algorithm>

namespace pipec {

namespace {

constexpr size_t kMostCandidates = 16;

/// The runs that are compared.
struct Runs {
  adapt::Course own, tuner, profiler, oracle;
  std::vector<adapt::Course> fixed;
  std::vector<adapt::Decision> decisions;
  adapt::Estimator estimates;

  double regret() const { return oracle.total > 0 ? double(own.total) / double(oracle.total) - 1 : 0; }
};

Status runAll(const plan::Plan &plan, const simulate::Scenario &network, int64_t steps, Runs &runs) {
  std::vector<const plan::Variant *> candidates;
  for (const plan::Variant &each : plan.variants)
    candidates.push_back(&each);
  Status status = adapt::adaptive(candidates, network, steps, runs.own, runs.decisions, &runs.estimates);
  if (status.ok())
    status = adapt::tuner(candidates, network, steps, runs.tuner);
  if (status.ok())
    status = adapt::profiler(candidates, network, steps, runs.profiler);
  if (status.ok())
    status = adapt::oracle(candidates, network, steps, runs.oracle);
  for (const plan::Variant *each : candidates)
    if (status.ok())
      status = adapt::fixed(*each, network, steps, runs.fixed.emplace_back());
  return status;
}

std::vector<double> inMilliseconds(const std::vector<plan::Time> &times) {
  std::vector<double> made;
  for (const plan::Time each : times)
    made.push_back(milliseconds(each));
  return made;
}

nlohmann::ordered_json changes(const Runs &runs) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (size_t i = 0; i != runs.decisions.size(); ++i)
    if (runs.decisions[i].from != runs.decisions[i].to)
      list.push_back(adapt::toJson(runs.decisions[i], int64_t(i) + 1));
  return list;
}

std::string textOf(const plan::Plan &plan, const Runs &runs) {
  std::string text = fmt::format("adapting, {} steps:\n", runs.own.ran.size());
  const auto row = [&](const std::string &name, const adapt::Course &course, const std::string &more) {
    text += fmt::format("  {:<28} {:>14}   {:+7.2f} % {}\n", name, plan::timeText(course.total),
                        100 * (double(course.total) / double(runs.oracle.total) - 1), more);
  };
  row("decided step by step", runs.own, fmt::format("  {} swaps", runs.own.switches()));
  for (size_t v = 0; v != runs.fixed.size(); ++v)
    row(fmt::format("variant {} throughout", v), runs.fixed[v], "  " + plan.variants[v].name);
  row("chosen every 10 steps", runs.tuner, "  by mean transfer times");
  row("tried every 50 steps", runs.profiler, "");
  row("oracle", runs.oracle, "  knows the network");
  constexpr size_t kShown = 20;
  size_t count = 0;
  for (size_t i = 0; i != runs.decisions.size(); ++i) {
    const adapt::Decision &each = runs.decisions[i];
    if (each.from == each.to || ++count > kShown)
      continue;
    text += fmt::format("  step {:>5}: variant {} for {}, as {} says: {}\n", i + 1, each.to, each.from, each.policy,
                        each.why);
  }
  if (count > kShown)
    text += fmt::format("  … {} more\n", count - kShown);
  return text;
}

} // namespace

int reportAdapted(const CommandOptions &options, const plan::Plan &plan, const simulate::Scenario &network,
                  emit::PlanReport &report) {
  if (plan.variants.size() > kMostCandidates)
    return fail(options, options.input,
                Status::input(fmt::format("--adapt chooses among at most {} variants, found {}", kMostCandidates,
                                          plan.variants.size())));
  if (plan.variants.size() == 1)
    say("the plan has one variant: there is nothing to choose\n");
  Runs runs;
  if (Status status = runAll(plan, network, options.steps, runs); !status.ok())
    return fail(options, options.network, status);
  if (!options.json) {
    for (emit::Report &each : report.variants)
      each.steps.clear();
    fmt::print("{}{}", emit::reportText(report), textOf(plan, runs));
    return 0;
  }
  nlohmann::ordered_json fixed = nlohmann::ordered_json::array();
  for (const adapt::Course &each : runs.fixed)
    fixed.push_back(milliseconds(each.total));
  nlohmann::ordered_json object = nlohmann::ordered_json::parse(emit::reportJson(report));
  object["adapt"] = {{"ran", runs.own.ran},
                     {"step_ms", inMilliseconds(runs.own.steps)},
                     {"total_ms", milliseconds(runs.own.total)},
                     {"fixed_ms", fixed},
                     {"tuner_ms", milliseconds(runs.tuner.total)},
                     {"profile_ms", milliseconds(runs.profiler.total)},
                     {"oracle_ms", milliseconds(runs.oracle.total)},
                     {"oracle_ran", runs.oracle.ran},
                     {"regret", runs.regret()},
                     {"switches", runs.own.switches()},
                     {"decisions", changes(runs)},
                     {"estimates", adapt::toJson(runs.estimates, plan.variants.front())}};
  fmt::print("{}", jsonText(object));
  return 0;
}

} // namespace pipec
