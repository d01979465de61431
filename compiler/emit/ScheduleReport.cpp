#include "compiler/emit/ScheduleReport.h"

#include "runtime/plan/Evaluation.h"
#include "runtime/plan/Layers.h"
#include "runtime/plan/Text.h"
#include "runtime/simulate/InFlight.h"
#include "runtime/simulate/Steps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <numeric>

namespace pipec::emit {

namespace {

using plan::milliseconds;

double mean(const std::vector<plan::Time> &times) {
  double sum = 0;
  for (plan::Time time : times)
    sum += milliseconds(time);
  return sum / double(times.size());
}

/// Of longer variants it is not said which rings bind: it takes a hundred bytes and more an instruction to find out.
constexpr int64_t kMostJudged = int64_t(1) << 24;

nlohmann::ordered_json json(const BindingRing &ring) {
  return {{"rank", ring.rank},
          {"peer", ring.peer},
          {"direction", ring.direction == plan::Direction::Send ? "send" : "recv"},
          {"size", ring.size},
          {"free_size", ring.freeSize ? nlohmann::ordered_json(*ring.freeSize) : nlohmann::ordered_json()}};
}

nlohmann::ordered_json json(const Report &report) {
  const plan::Certificate &certificate = report.certificate;
  nlohmann::ordered_json object = {{"schedule", report.schedule},
                                   {"variant", report.variant},
                                   {"ranks", report.ranks},
                                   {"stages", report.stages},
                                   {"copies", report.copies},
                                   {"microbatches", report.microbatches},
                                   {"slices", report.slices},
                                   {"makespan_ms", milliseconds(certificate.makespan)},
                                   {"span_ms", milliseconds(certificate.span)},
                                   {"bubble_rate", report.bubbleRate},
                                   {"span_bubble_rate", report.spanBubbleRate},
                                   {"lower_bound_ms", milliseconds(certificate.lowerBound.picoseconds())},
                                   {"span_lower_bound_ms", milliseconds(certificate.spanLowerBound.picoseconds())},
                                   {"bound", plan::name(certificate.bound)},
                                   {"span_bound", plan::name(certificate.spanBound)},
                                   {"gap", certificate.lowerBound.gap(certificate.makespan)},
                                   {"span_gap", certificate.spanLowerBound.gap(certificate.span)},
                                   {"peak_activation_bytes", report.peakActivation},
                                   {"peak_bytes", report.peak},
                                   {"instructions", report.instructions},
                                   {"degree", report.degree},
                                   {"exposed_ms", milliseconds(report.exposed)},
                                   {"collectives", report.collectives}};
  for (const plan::SharedWeight &weight : report.shared)
    object["shared"].push_back(
        {{"layers", weight.layers}, {"stages", weight.stages}, {"gradient_bytes", weight.gradients}});
  addJson(report.widths, object);
  addJson(report.balance, object);
  addJson(report.jobs, object);
  if (report.atOwnMemory) {
    object["gap_at_own_memory"] = report.atOwnMemory->makespan.gap(certificate.makespan);
    object["span_gap_at_own_memory"] = report.atOwnMemory->span.gap(certificate.span);
  }
  if (!report.cut.empty()) {
    object["cut"] = report.cut;
    object["cut_bound_ms"] = milliseconds(report.cutBound.picoseconds());
  }
  if (!report.recompute.empty())
    object["recompute"] = report.recompute;
  if (report.bindingRings) {
    object["rings_that_bind"] = nlohmann::ordered_json::array();
    for (const BindingRing &ring : *report.bindingRings)
      object["rings_that_bind"].push_back(json(ring));
  }
  if (report.evaluation)
    object["evaluate"] = {{"makespan_ms", milliseconds(report.evaluation->makespan)},
                          {"peak_bytes", report.evaluation->peak}};
  if (report.steps.empty())
    return object;
  auto [least, most] = std::minmax_element(report.steps.begin(), report.steps.end());
  object["mean_step_ms"] = mean(report.steps);
  object["least_step_ms"] = milliseconds(*least);
  object["most_step_ms"] = milliseconds(*most);
  for (plan::Time step : report.steps)
    object["step_ms"].push_back(milliseconds(step));
  return object;
}

/// Lines of eight.
std::string stepsText(const std::vector<plan::Time> &steps) {
  constexpr size_t kShown = 200;
  auto [least, most] = std::minmax_element(steps.begin(), steps.end());
  std::string text =
      fmt::format("  {:<9} {:>9.3f} ms   mean of {} steps; least {:.3f} ms, most {:.3f} ms in step {}", "network",
                  mean(steps), steps.size(), milliseconds(*least), milliseconds(*most), most - steps.begin());
  for (size_t s = 0; s != std::min(steps.size(), kShown); ++s)
    text += fmt::format("{} {:>10.3f}", s % 8 == 0 ? fmt::format("\n  step {:>5}", s) : "", milliseconds(steps[s]));
  return text + (steps.size() > kShown ? fmt::format("\n  … {} more\n", steps.size() - kShown) : "\n");
}

/// "0 to 1: 2 of 4": of what rank 0 sends to rank 1. Lines of four.
std::string ringsText(const std::vector<BindingRing> &rings, size_t all) {
  constexpr size_t kShown = 12;
  std::string text = fmt::format("  {:<9} {:>12}   of {} bind in some timing{}", "rings", rings.size(), all,
                                 rings.empty() ? "" : "; their slots, of those with which they bind in none");
  for (size_t r = 0; r != std::min(rings.size(), kShown); ++r) {
    const BindingRing &ring = rings[r];
    text += fmt::format("{}   {:<20}", r % 4 == 0 ? "\n " : "",
                        fmt::format("{} {} {}: {} {}", ring.rank,
                                    ring.direction == plan::Direction::Send ? "to" : "from", ring.peer, ring.size,
                                    ring.freeSize ? fmt::format("of {}", *ring.freeSize) : "(any would)"));
    text.erase(text.find_last_not_of(' ') + 1);
  }
  return text + (rings.size() > kShown ? fmt::format("\n    … {} more\n", rings.size() - kShown) : "\n");
}

/// The collectives of gradients and weights that a rank executes a step.
int64_t collectivesOf(const plan::Program &program) {
  int64_t count = 0;
  for (plan::Cursor cursor(program); !cursor.done(); cursor.next())
    if (const plan::Operation &operation = *cursor.at().operation; plan::isCollective(operation.kind))
      count += operation.of != plan::Payload::Norm;
  return count;
}

Report figuresOf(const plan::Variant &variant, const simulate::Result &result) {
  Report own;
  own.schedule = variant.schedule.empty() ? variant.name : variant.schedule;
  own.variant = variant.name;
  own.ranks = int32_t(variant.programs.size());
  own.stages = variant.stagesOfCopy();
  own.copies = variant.copies;
  own.slices = variant.slices;
  own.microbatches = variant.wholeMicrobatches();
  own.certificate = variant.certificate;
  if (variant.cutBound != plan::LeastTime()) { // else the spec says the cut
    own.cut = variant.cut;
    own.cutBound = variant.cutBound;
  }
  for (const int32_t stage : plan::stagesDoing(variant, plan::kRecomputation))
    if (stage < own.stages) // its other copy runs again with it
      own.recompute.push_back(stage);
  for (const plan::SharedWeight &weight : variant.shared)
    if (plan::ranksOf(variant, weight).size() > 1)
      own.shared.push_back(weight);
  own.balance = balanceOf(variant);
  own.widths = widthsOf(variant);
  own.bubbleRate = simulate::bubbleRate(result, variant.certificate.makespan);
  own.spanBubbleRate = simulate::bubbleRate(result, variant.certificate.span);
  for (size_t place = 0; place != variant.places(); ++place) {
    own.peakActivation.push_back(result.places[place].peakActivation);
    own.peak.push_back(result.places[place].peak);
    own.ofJob = std::max(own.ofJob, variant.jobMemory(variant.programOf(place)));
    own.instructions.push_back(plan::executed(variant.programOf(place)));
    own.collectives.push_back(collectivesOf(variant.programOf(place)));
  }
  return own;
}

} // namespace

Status add(const plan::Plan &plan, const plan::Variant &variant, const simulate::Result &result, PlanReport &report) {
  report.variants.push_back(figuresOf(variant, result));
  Report &own = report.variants.back();
  own.degree = plan.degree();
  if (Status status = simulate::exposed(variant, own.exposed); !status.ok())
    return status;
  return jobsOf(variant, result, own.jobs);
}

Status report(const plan::Plan &plan, PlanReport &report) {
  for (const plan::Variant &variant : plan.variants) {
    simulate::Result result;
    Status status = simulate::prove(variant, result);
    if (status.ok())
      status = add(plan, variant, result, report);
    if (!status.ok())
      return status;
  }
  return {};
}

Status addRings(const plan::Plan &plan, PlanReport &report) {
  for (size_t v = 0; v != plan.variants.size(); ++v) {
    const plan::Variant &variant = plan.variants[v];
    Report &own = report.variants[v];
    if (std::accumulate(own.instructions.begin(), own.instructions.end(), int64_t(0)) > kMostJudged)
      continue;
    std::vector<std::vector<simulate::Flight>> flights;
    if (Status status = simulate::inFlight(variant, flights); !status.ok())
      return status;
    own.rings = 0;
    own.bindingRings.emplace();
    for (const plan::Program &program : variant.programs) {
      own.rings += program.rings.size();
      for (const plan::Ring &ring : program.rings)
        for (const simulate::Flight &flight : flights[size_t(program.rank)])
          if (ring.peer == flight.peer && ring.direction == flight.direction && !flight.bindsNever(ring.size))
            own.bindingRings->push_back(
                {program.rank, ring.peer, ring.direction, ring.size, flight.freeSize(ring.size + 1)});
    }
  }
  return {};
}

Status addEvaluations(const plan::Plan &plan, PlanReport &report) {
  for (size_t v = 0; v != plan.variants.size() && plan::mayEvaluate(plan).ok(); ++v) {
    Report &own = report.variants[v];
    if (std::accumulate(own.instructions.begin(), own.instructions.end(), int64_t(0)) > kMostJudged)
      continue;
    plan::Variant evaluation;
    simulate::Result result;
    Status status = plan::evaluationOf(plan.variants[v], evaluation);
    if (status.ok())
      status = simulate::simulate(evaluation, {}, result);
    if (!status.ok())
      return status;
    own.evaluation = Report::Evaluation{result.makespan, {}};
    for (const simulate::PlaceResult &place : result.places)
      own.evaluation->peak.push_back(place.peak);
  }
  return {};
}

Status addNetwork(const plan::Plan &plan, const simulate::Scenario &network, int64_t steps, PlanReport &report) {
  simulate::Options options;
  options.steps = steps;
  options.scenario = &network;
  for (size_t v = 0; v != plan.variants.size(); ++v)
    if (Status status = simulate::stepTimes(plan.variants[v], options, report.variants[v].steps); !status.ok())
      return status;
  return {};
}

std::string reportJson(const PlanReport &report) {
  nlohmann::ordered_json object = json(report.variants.front());
  object["plan_bytes"] = report.planBytes;
  object["compile_ms"] = report.compileMs < 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(report.compileMs);
  if (!report.stoppedBy.empty())
    object["stopped"] = report.stoppedBy;
  for (const Report &variant : report.variants)
    object["variants"].push_back(json(variant));
  return object.dump(2) + "\n";
}

std::string reportText(const PlanReport &report) {
  std::string text;
  for (const Report &variant : report.variants) {
    const plan::Certificate &certificate = variant.certificate;
    auto line = [&](const char *what, plan::Time time, plan::LeastTime bound, plan::Bound argument, double bubble) {
      text += fmt::format("  {:<9} {:>12}   bubble {:6.2f} %   bound {:>12} ({}), gap {:.2f} %\n", what,
                          plan::timeText(time), 100 * bubble, plan::timeText(bound.picoseconds()), plan::name(argument),
                          100 * bound.gap(time));
    };
    std::string title = variant.schedule.empty() ? "plan" : variant.schedule;
    if (report.variants.size() > 1 && !variant.variant.empty() && variant.variant != title)
      title += fmt::format(" ({})", variant.variant);
    text += fmt::format("{}: {} ranks, {} stages{}, {} microbatches{}\n", title, variant.ranks, variant.stages,
                        variant.copies > 1 ? " twice" : "", variant.microbatches,
                        variant.slices > 1 ? fmt::format(" of {} slices", variant.slices) : "");
    line("makespan", certificate.makespan, certificate.lowerBound, certificate.bound, variant.bubbleRate);
    line("span", certificate.span, certificate.spanLowerBound, certificate.spanBound, variant.spanBubbleRate);
    auto range = [](const auto &values) { return std::minmax_element(values.begin(), values.end()); };
    auto [leastActivation, mostActivation] = range(variant.peakActivation);
    auto [least, most] = range(variant.peak);
    auto [fewest, mostInstructions] = range(variant.instructions);
    text += fmt::format("  {:<9} {:>12}   on rank {}; {} on rank {}; activations at most {}{}\n", "memory",
                        plan::bytesText(*most), most - variant.peak.begin(), plan::bytesText(*least),
                        least - variant.peak.begin(), plan::bytesText(*mostActivation),
                        variant.ofJob == 0 ? "" : fmt::format(", jobs {}", plan::bytesText(variant.ofJob)));
    if (variant.atOwnMemory)
      text += fmt::format("  {:<9} {:>12}   to the bound of orders in as much memory: {:.2f} %, of the span {:.2f} %\n",
                          "", "gap", 100 * variant.atOwnMemory->makespan.gap(certificate.makespan),
                          100 * variant.atOwnMemory->span.gap(certificate.span));
    if (!variant.cut.empty())
      text += fmt::format("  {:<9} {:>12}   the least of all cuts; layers of each stage: [{}]\n", "cut",
                          plan::timeText(variant.cutBound.picoseconds()), fmt::join(variant.cut, ", "));
    if (variant.degree > 1)
      text +=
          fmt::format("  {:<9} {:>12}   replicas of each rank; {} of the span waits for their exchange, {} "
                      "collectives on a rank at most\n",
                      "replicas", variant.degree, plan::timeText(variant.exposed), *range(variant.collectives).second);
    if (!variant.shared.empty())
      text += fmt::format("  {:<9} {:>12}   weights that layers of several ranks hold; {}\n", "shared",
                          variant.shared.size(),
                          variant.degree > 1 ? "the exchange has their sums"
                                             : plan::timeText(variant.exposed) + " of the span waits for their sums");
    text += textOf(variant.widths);
    text += textOf(variant.balance);
    text += textOf(variant.jobs);
    if (!variant.recompute.empty())
      text += fmt::format(
          "  {:<9} {:>12}   stages that run their forward again: {}\n", "recompute", variant.recompute.size(),
          variant.recompute.size() == size_t(variant.stages) ? "all"
                                                             : fmt::format("[{}]", fmt::join(variant.recompute, ", ")));
    if (variant.bindingRings)
      text += ringsText(*variant.bindingRings, variant.rings);
    text += fmt::format("  {:<9} {:>12}   instructions a rank and step ({} on the shortest)\n", "program",
                        *mostInstructions, *fewest);
    if (!variant.steps.empty())
      text += stepsText(variant.steps);
  }
  text += fmt::format("  {:<9} {:>12}", "plan", plan::bytesText(report.planBytes));
  if (report.compileMs >= 0)
    text += fmt::format("   compiled in {:.1f} ms", report.compileMs);
  if (!report.stoppedBy.empty())
    text += fmt::format("; the search was stopped by {}: more time may find a better one", report.stoppedBy);
  return text + "\n";
}

} // namespace pipec::emit
