#include "tools/pipec/AdaptReport.h"

#include "compiler/driver/Files.h"
#include "compiler/replan/Round.h"
#include "runtime/adapt/AdaptJson.h"
#include "runtime/adapt/VirtualRun.h"
#include "runtime/plan/Text.h"
#include "tools/commandline/Standard.h"
#include "tools/pipec/Inputs.h"
#include "tools/pipec/SearchRows.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <optional>

namespace pipec {

namespace {

/// A round of re-planning in virtual time.
struct Replan {
  plan::Time at = 0;
  std::optional<std::string> loaded; // none: no plan paid
  double gain = 0;
};

/// The runs that are compared.
struct Runs {
  adapt::Course own, tuner, profiler, oracle;
  std::vector<adapt::Course> fixed;
  std::vector<adapt::Decision> decisions;
  adapt::Estimator estimates;
  std::vector<std::string> names; // names of candidates
  std::deque<plan::Plan> plans;   // loaded plans
  std::vector<Replan> replans;
  std::optional<adapt::Course> without; // the same without re-planning; none: the run does not re-plan

  double regret() const { return oracle.total > 0 ? double(own.total) / double(oracle.total) - 1 : 0; }
};

std::string nameOf(const plan::Plan &plan, size_t variant) {
  const std::string &name = plan.variants[variant].name;
  return name.empty() ? fmt::format("variant {}", variant) : name;
}

/// Plans anew from a spec, as `pipec replan` does beside a run, and adds the outcome to `runs`. If a round fails,
/// prints why, and the run goes on.
adapt::Replanner replannerOf(const CommandOptions &options, const plan::Plan &plan, Runs &runs) {
  constexpr double kGain = 0.02;
  adapt::Replanner replanner;
  replanner.plan = [&options, &plan, &runs](plan::Time at, const adapt::Estimator &estimates,
                                            const std::vector<const plan::Variant *> &present) {
    std::vector<Candidate> old;
    for (const plan::Variant *each : present)
      old.push_back({each->name, each});
    Round round;
    Failure failure;
    Replan made{at, std::nullopt, 0};
    std::vector<const plan::Variant *> added;
    if (replanOnce({options.replan, options.set}, plan, old, measuredOf(estimates), kGain, false, round, failure)) {
      made.gain = round.gain;
      if (round.pays) {
        made.loaded = round.best.name;
        runs.names.push_back(round.best.name);
        added.push_back(&runs.plans.emplace_back(std::move(round.best.plan)).variants.front());
      }
    }
    runs.replans.push_back(std::move(made));
    return added;
  };
  return replanner;
}

Status runAll(const CommandOptions &options, const plan::Plan &plan, const simulate::Scenario &network, Runs &runs) {
  const int64_t steps = options.steps;
  std::vector<const plan::Variant *> candidates;
  for (size_t v = 0; v != plan.variants.size(); ++v) {
    candidates.push_back(&plan.variants[v]);
    runs.names.push_back(nameOf(plan, v));
  }
  Status status;
  if (options.replan.empty()) {
    status = adapt::adaptive(candidates, network, steps, runs.own, runs.decisions, &runs.estimates);
  } else {
    const adapt::Replanner replanner = replannerOf(options, plan, runs);
    status = adapt::adaptive(candidates, network, steps, runs.own, runs.decisions, &runs.estimates, &replanner);
    std::vector<adapt::Decision> ignored;
    if (status.ok())
      status = adapt::adaptive(candidates, network, steps, runs.without.emplace(), ignored);
  }
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
  if (runs.without)
    row("without re-planning", *runs.without, fmt::format("  {} swaps", runs.without->switches()));
  for (size_t v = 0; v != runs.fixed.size(); ++v)
    row(fmt::format("variant {} throughout", v), runs.fixed[v], "  " + plan.variants[v].name);
  row("chosen every 10 steps", runs.tuner, "  by mean transfer times");
  row("tried every 50 steps", runs.profiler, "");
  row("oracle", runs.oracle, "  knows the network");
  for (const Replan &each : runs.replans)
    text += fmt::format("  planned anew at {}: {}\n", plan::timeText(each.at),
                        each.loaded ? fmt::format("{}, which gains {:.1f} %", *each.loaded, 100 * each.gain)
                                    : fmt::format("nothing that pays, {:+.1f} %", 100 * each.gain));
  constexpr size_t kShown = 20;
  const auto shown = [&](size_t candidate) {
    return candidate < plan.variants.size() ? fmt::format("variant {}", candidate) : runs.names[candidate];
  };
  size_t count = 0;
  for (size_t i = 0; i != runs.decisions.size(); ++i) {
    const adapt::Decision &each = runs.decisions[i];
    if (each.from == each.to || ++count > kShown)
      continue;
    text += fmt::format("  step {:>5}: {} for {}, as {} says: {}\n", i + 1, shown(each.to), shown(each.from),
                        each.policy, each.why);
  }
  if (count > kShown)
    text += fmt::format("  … {} more\n", count - kShown);
  return text;
}

} // namespace

int reportAdapted(const CommandOptions &options, const plan::Plan &plan, const simulate::Scenario &network,
                  emit::PlanReport &report) {
  if (plan.variants.size() > adapt::kMostCandidates)
    return fail(options, options.input,
                Status::input(fmt::format("--adapt chooses among at most {} variants, found {}", adapt::kMostCandidates,
                                          plan.variants.size())));
  if (!options.replan.empty()) {
    Failure failure;
    if (Status status = expectKind(options.replan, "a spec", {FileKind::Spec}); !status.ok())
      return fail(options, options.replan, status);
    if (!checkReplan({options.replan, options.set}, plan, failure))
      return fail(options, failure);
  } else if (plan.variants.size() == 1)
    say("the plan has one variant: there is nothing to choose\n");
  Runs runs;
  if (Status status = runAll(options, plan, network, runs); !status.ok())
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
  nlohmann::ordered_json replans = nlohmann::ordered_json::array();
  for (const Replan &each : runs.replans)
    replans.push_back({{"at_ms", milliseconds(each.at)},
                       {"loaded", each.loaded ? nlohmann::ordered_json(*each.loaded) : nlohmann::ordered_json()},
                       {"gain", each.gain}});
  object["adapt"] = {{"candidates", runs.names},
                     {"ran", runs.own.ran},
                     {"step_ms", inMilliseconds(runs.own.steps)},
                     {"total_ms", milliseconds(runs.own.total)},
                     {"fixed_ms", fixed},
                     {"tuner_ms", milliseconds(runs.tuner.total)},
                     {"profile_ms", milliseconds(runs.profiler.total)},
                     {"oracle_ms", milliseconds(runs.oracle.total)},
                     {"oracle_ran", runs.oracle.ran},
                     {"regret", runs.regret()},
                     {"switches", runs.own.switches()},
                     {"replans", replans},
                     {"decisions", changes(runs)},
                     {"estimates", adapt::toJson(runs.estimates, plan.variants.front())}};
  fmt::print("{}", jsonText(object));
  return 0;
}

} // namespace pipec
