// `pipec explain`: for a moment, the chain of causes; for a whole spec, its formulas in numbers, the bound that is
// reached, and what would help, each change tried by compiling and simulating it.
#include "compiler/explain/Explain.h"

#include "compiler/driver/Compile.h"
#include "compiler/driver/Formulas.h"
#include "compiler/driver/Plans.h"
#include "compiler/driver/Traces.h"
#include "compiler/emit/ScheduleReport.h"
#include "runtime/plan/Limits.h"
#include "runtime/plan/Text.h"
#include "runtime/plan/Units.h"
#include "tools/pipec/Commands.h"
#include "tools/pipec/Inputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <optional>

namespace pipec {

namespace {

/// The meaning of a bound, and what would lower it.
const char *meaning(plan::Bound bound) {
  switch (bound) {
  case plan::Bound::None:
    return "nothing bounds it";
  case plan::Bound::CriticalPath:
    return "a microbatch's way through all stages and back, behind the others of its stage: fewer or quicker stages, "
           "quicker links";
  case plan::Bound::Work:
    return "the busiest rank's work and the idle time that data alone force on it: more microbatches, an evener split";
  case plan::Bound::WarmUp:
    return "too few forwards fit into memory before the first backward comes back: more memory, quicker links";
  case plan::Bound::MemoryChain:
    return "a forward waits for the memory of a backward long before it: more memory";
  case plan::Bound::Area:
    return "bytes held, times how long they must be: more memory, or less to keep";
  case plan::Bound::LastDevice:
    return "two ranks that wait for each other, from one's first start to the other's end: more microbatches, quicker "
           "links";
  case plan::Bound::Exact:
    return "an exact search: nothing is quicker";
  case plan::Bound::Exchange:
    return "the replicas' exchange of gradients: its wire, or a layer's round from its forward to its sum and back: a "
           "quicker network, fewer bytes";
  }
  return "";
}

std::string range(const schedule::Problem &problem, schedule::Letter letter) {
  plan::Time least = limits::kTime, most = 0;
  for (const schedule::Stage &each : problem.stages) {
    const plan::Time cost = schedule::ownCost(each, letter);
    least = std::min(least, cost);
    most = std::max(most, cost);
  }
  return least == most ? plan::timeText(most) : fmt::format("{} to {}", plan::timeText(least), plan::timeText(most));
}

size_t variantOf(const CommandOptions &options) { return size_t(std::max(options.variant, 0)); }

std::string bandwidthText(int64_t bandwidth) { return bandwidth == 0 ? "unlimited" : fmt::format("{}B/s", bandwidth); }

/// The outcome of a change to the spec, for the time per microbatch.
struct WhatIf {
  std::string change;
  std::vector<std::string> set;
  plan::Time span = 0;
  int64_t microbatches = 0;
  std::vector<plan::Bytes> peaks; // by rank
  std::vector<int32_t> cut;       // the cut that `auto` chose

  plan::Bytes peak() const { return *std::max_element(peaks.begin(), peaks.end()); }
};

/// Compiles and simulates the variant of the same name after one change to the spec. Returns nothing if the spec has
/// already set the changed value in another form, or if the variant no longer fits.
std::optional<WhatIf> whatIf(const CommandOptions &options, const plan::Variant &variant, const std::string &change,
                             const std::vector<std::string> &set) {
  std::vector<std::string> all = options.set;
  all.insert(all.end(), set.begin(), set.end());
  Compiled compiled;
  Failure failure;
  if (!compile(options.input, all, Stage::Plan, compiled, failure, Said::Nothing))
    return std::nullopt;
  size_t v = 0;
  while (v != compiled.plan.variants.size() && compiled.plan.variants[v].name != variant.name)
    ++v;
  if (v == compiled.plan.variants.size())
    return std::nullopt;
  const plan::Variant &made = compiled.plan.variants[v];
  WhatIf result{change, set, made.certificate.span, made.wholeMicrobatches(), {}, made.cut};
  for (const simulate::PlaceResult &rank : compiled.walks[v].places)
    result.peaks.push_back(rank.peak);
  return result;
}

/// Tries as much memory as the spec would use without a limit, in whole MiB; nothing if the limit is already that high.
/// If the spec has a limit for each rank, each rank gets its own.
std::optional<WhatIf> enoughMemory(const CommandOptions &options, const plan::Variant &variant) {
  constexpr plan::Bytes kMebibyte = plan::Bytes(1) << 20;
  if (variant.memoryLimit == 0)
    return std::nullopt;
  const std::optional<WhatIf> free = whatIf(options, variant, "no memory limit", {"memory.limit=1048576TiB"});
  if (!free)
    return std::nullopt;
  const bool byRank = std::any_of(variant.programs.begin(), variant.programs.end(),
                                  [](const plan::Program &program) { return program.memoryLimit != 0; });
  std::vector<std::string> given, enough, set;
  bool more = false;
  for (size_t rank = 0; rank != (byRank ? free->peaks.size() : 1); ++rank) {
    const plan::Bytes limit = variant.limitOf(variant.programs[rank]);
    const plan::Bytes peak = byRank ? free->peaks[rank] : free->peak();
    const plan::Bytes needed = peak <= limit ? limit : ((peak - 1) / kMebibyte + 1) * kMebibyte;
    more |= peak > limit;
    given.push_back(plan::bytesText(limit));
    enough.push_back(plan::bytesText(needed));
    set.push_back(needed % kMebibyte == 0 ? fmt::format("{}MiB", needed / kMebibyte) : fmt::format("{}B", needed));
  }
  if (!more)
    return std::nullopt;
  return whatIf(options, variant,
                byRank ? fmt::format("memory limits of {}, not {}", fmt::join(enough, ", "), fmt::join(given, ", "))
                       : fmt::format("a memory limit of {}, not {}", enough.front(), given.front()),
                {byRank ? fmt::format("memory.limit=[{}]", fmt::join(set, ", ")) : "memory.limit=" + set.front()});
}

/// Tries the cut that `auto` chooses.
std::optional<WhatIf> otherCut(const CommandOptions &options, const plan::Variant &variant) {
  std::optional<WhatIf> found = whatIf(options, variant, "", {"pipeline.cut=auto"});
  if (!found)
    return std::nullopt;
  const std::string cut = fmt::format("[{}]", fmt::join(found->cut, ", "));
  found->change = fmt::format("the layers cut {}", cut);
  found->set = {"pipeline.cut=" + cut};
  return found;
}

/// Settings that give every link this latency and bandwidth, also links with figures of their own.
std::vector<std::string> everyLink(const schedule::Problem &problem, std::optional<schedule::Time> latency,
                                   std::optional<int64_t> bandwidth) {
  std::vector<std::string> set;
  if (latency)
    set.push_back(fmt::format("costs.link.latency={}ps", *latency));
  if (bandwidth)
    set.push_back("costs.link.bandwidth=" + bandwidthText(*bandwidth));
  std::string own;
  for (const auto &[ends, link] : problem.links)
    own += fmt::format("{}{{from: {}, to: {}, latency: {}ps, bandwidth: {}}}", own.empty() ? "" : ", ", ends.first,
                       ends.second, latency.value_or(link.latency), bandwidthText(bandwidth.value_or(link.bandwidth)));
  if (!own.empty())
    set.push_back("costs.links=[" + own + "]");
  return set;
}

/// The changes that can be made to the spec.
std::vector<WhatIf> whatIfs(const CommandOptions &options, const Compiled &compiled, size_t v) {
  const plan::Variant &variant = compiled.plan.variants[v];
  const schedule::Problem &problem = compiled.problems[v];
  std::vector<WhatIf> tried;
  auto add = [&](std::optional<WhatIf> each) {
    if (each)
      tried.push_back(std::move(*each));
  };
  add(whatIf(options, variant, "twice the microbatches",
             {fmt::format("pipeline.microbatches={}", 2 * variant.wholeMicrobatches())}));
  add(whatIf(options, variant, "links without latency", everyLink(problem, 0, std::nullopt)));
  add(whatIf(options, variant, "links of unlimited bandwidth", everyLink(problem, std::nullopt, 0)));
  add(enoughMemory(options, variant));
  if (compiled.hasLayers && !compiled.choosesCut)
    add(otherCut(options, variant));
  return tried;
}

std::string shellText(const std::vector<std::string> &set) {
  std::string text;
  for (const std::string &each : set) {
    const char *quote = each.find(' ') == std::string::npos ? "" : "'";
    text += fmt::format("{}{}{}{}", text.empty() ? "" : " --set ", quote, each, quote);
  }
  return text;
}

using plan::milliseconds;

int explainAll(const CommandOptions &options, const Compiled &compiled) {
  emit::PlanReport figures;
  if (Status status = figuresOf(compiled, figures); !status.ok())
    return fail(options, options.input, status);
  const size_t v = variantOf(options);
  const emit::Report &own = figures.variants[v];
  const plan::Certificate &certificate = own.certificate;
  const schedule::Problem *problem = compiled.problems.empty() ? nullptr : &compiled.problems[v];
  std::optional<Formulas> formula = problem ? formulas(own.schedule, *problem, compiled.parameters[v]) : std::nullopt;
  std::vector<WhatIf> tried = problem ? whatIfs(options, compiled, v) : std::vector<WhatIf>{};
  auto perMicrobatch = [](plan::Time span, int64_t microbatches) { return double(span) / double(microbatches); };
  const double now = perMicrobatch(certificate.span, own.microbatches);
  auto gain = [&](const WhatIf &each) { return now > 0 ? 1 - perMicrobatch(each.span, each.microbatches) / now : 0.0; };

  if (options.json) {
    nlohmann::ordered_json object = {{"schedule", own.schedule},
                                     {"ranks", own.ranks},
                                     {"stages", own.stages},
                                     {"microbatches", own.microbatches},
                                     {"makespan_ms", milliseconds(certificate.makespan)},
                                     {"span_ms", milliseconds(certificate.span)},
                                     {"bubble_rate", own.bubbleRate},
                                     {"bound", plan::name(certificate.bound)},
                                     {"bound_means", meaning(certificate.bound)},
                                     {"span_bound", plan::name(certificate.spanBound)},
                                     {"span_bound_means", meaning(certificate.spanBound)}};
    if (formula) {
      for (const auto &[key, each] : {std::pair("bubble", &formula->bubble), std::pair("memory", &formula->memory)}) {
        object[key] = each->text;
        object[key + std::string("_here")] = each->here;
        object[key + std::string("_fails")] = each->failing;
      }
    }
    object["what_if"] = nlohmann::ordered_json::array();
    for (const WhatIf &each : tried)
      object["what_if"].push_back({{"change", each.change},
                                   {"set", each.set},
                                   {"span_ms", milliseconds(each.span)},
                                   {"microbatches", each.microbatches},
                                   {"peak_bytes", each.peak()},
                                   {"gain", gain(each)}});
    fmt::print("{}", jsonText(object));
    return 0;
  }

  std::string text =
      fmt::format("{}: {} ranks, {} stages, {} microbatches\n", own.schedule, own.ranks, own.stages, own.microbatches);
  if (problem) {
    const bool fused = problem->backward == schedule::BackwardMode::Fused;
    text += fmt::format("  a stage and microbatch: F {}, {}{}{}{}\n", range(*problem, schedule::Letter::F),
                        problem->recomputes() ? fmt::format("R {}, ", range(*problem, schedule::Letter::R)) : "",
                        fused ? "BW " : "B ", range(*problem, fused ? schedule::Letter::BW : schedule::Letter::B),
                        fused ? "" : ", W " + range(*problem, schedule::Letter::W));
  }
  if (formula)
    for (const auto &[what, each] :
         {std::pair("idle time", &formula->bubble), std::pair("activations", &formula->memory)}) {
      text += fmt::format("  {:<12} {}\n               {}\n", what, each->text, each->here);
      if (!each->failing.empty())
        text += fmt::format("               not met here: {}\n", fmt::join(each->failing, ", "));
    }
  auto bound = [&](const char *what, plan::Time time, plan::LeastTime least, plan::Bound argument, double bubble) {
    text += fmt::format("  {:<12} {}, {:.2f} % of it idle; no order takes less than {} ({}), a gap of {:.2f} %\n", what,
                        plan::timeText(time), 100 * bubble, plan::timeText(least.picoseconds()), plan::name(argument),
                        100 * least.gap(time));
    text += fmt::format("               {}\n", meaning(argument));
  };
  bound("makespan", certificate.makespan, certificate.lowerBound, certificate.bound, own.bubbleRate);
  bound("span", certificate.span, certificate.spanLowerBound, certificate.spanBound, own.spanBubbleRate);
  std::string useless;
  for (const WhatIf &each : tried) {
    constexpr double kNothing = 5e-5; // prints as 0.00 %
    if (std::abs(gain(each)) < kNothing)
      useless += (useless.empty() ? "" : ", ") + each.change;
    else
      text += fmt::format("  with {}: {:+.2f} % time per microbatch, a peak of {} (simulated: --set {})\n", each.change,
                          -100 * gain(each), plan::bytesText(each.peak()), shellText(each.set));
  }
  if (!useless.empty())
    text += fmt::format("  no gain from: {}\n", useless);
  fmt::print("{}", text);
  return 0;
}

/// Explains the moment in the run of --trace.
Status explainRun(const CommandOptions &options, const Compiled &compiled, plan::Time at,
                  emit::Explanation &explanation) {
  const plan::Variant &variant = compiled.plan.variants[variantOf(options)];
  trace::Run run;
  simulate::Recording recording;
  Status status = readTraces(options.trace, run);
  keepFirstReplica(run, compiled.plan.degree());
  if (status.ok())
    status = haveAllRanks(run.events, compiled.plan);
  if (status.ok())
    status = replay(variant, run.events, options.step, recording);
  return status.ok() ? emit::explainRun(variant, recording, options.rank, at, explanation) : status;
}

} // namespace

int explainCommand(const CommandOptions &options) {
  if ((options.rank < 0) != options.at.empty())
    return fail(options, options.input, Status::usage("a moment needs both --rank and --at"));
  if (!options.trace.empty() && options.at.empty())
    return fail(options, options.input, Status::usage("--trace is for a moment: --rank and --at say which"));
  if (options.step >= 0 && options.trace.empty())
    return fail(options, options.input, Status::usage("--step is of the run of --trace"));
  plan::Time at = 0;
  if (!options.at.empty()) {
    units::Quantity time = units::parseDuration(options.at);
    if (!time.ok())
      return fail(options, options.input, Status::usage("--at: " + time.error));
    at = time.value;
  }
  Compiled compiled;
  int code = 0;
  if (!obtain(options, options.input, compiled, code))
    return code;
  const size_t v = variantOf(options);
  if (v >= compiled.plan.variants.size())
    return fail(
        options, options.input,
        Status::usage(fmt::format("there is no variant {}: the plan has {}", v, compiled.plan.variants.size())));
  if (options.at.empty())
    return explainAll(options, compiled);
  emit::Explanation explanation;
  if (Status status = options.trace.empty() ? emit::explain(compiled.plan.variants[v], options.rank, at, explanation)
                                            : explainRun(options, compiled, at, explanation);
      !status.ok())
    return fail(options, status.code == Code::Input && !options.trace.empty() ? options.trace : options.input, status);
  constexpr size_t kLinks = 40;
  fmt::print("{}", options.json ? emit::explanationJson(explanation) : emit::explanationText(explanation, kLinks));
  return 0;
}

} // namespace pipec
