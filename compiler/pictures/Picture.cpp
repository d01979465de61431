#include "compiler/pictures/Picture.h"

#include "compiler/pictures/Decisions.h"
#include "compiler/pictures/Overlay.h"
#include "runtime/plan/Text.h"
#include "runtime/simulate/Simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace pipec::emit {

namespace {

using plan::Time;

/// What makes an operation of a step the one it is.
using Identity = std::tuple<int32_t, plan::Kind, int32_t, int64_t>; // rank, kind, stage, microbatch

struct Timed {
  Time start, end;
};
using Timings = std::map<Identity, Timed>;

/// Whether an operation is drawn. The header of an overlapped pair is not; its two passes are.
bool isDrawn(plan::Kind kind) { return plan::isBusy(kind); }

int32_t chunkOf(const plan::Program &program, int32_t stage) {
  const auto found = std::find(program.stages.begin(), program.stages.end(), stage);
  return found == program.stages.end() ? 0 : int32_t(found - program.stages.begin());
}

/// Sorts each lane, and lets the section begin with its first box.
void settle(Section &section) {
  Time first = INT64_MAX, last = 0;
  for (const Lane &lane : section.lanes)
    for (const Box &box : lane.boxes) {
      first = std::min(first, box.start);
      last = std::max(last, box.end);
    }
  for (Lane &lane : section.lanes) {
    for (Box &box : lane.boxes) {
      box.start -= first;
      box.end -= first;
    }
    std::sort(lane.boxes.begin(), lane.boxes.end(), [](const Box &a, const Box &b) {
      const size_t one = plan::counterOf(a.kind), other = plan::counterOf(b.kind); // of a pair the F first
      return std::tie(a.start, a.end, one, a.chunk, a.microbatch) <
             std::tie(b.start, b.end, other, b.chunk, b.microbatch);
    });
    for (size_t i = 1; i < lane.boxes.size(); ++i) {
      Box &one = lane.boxes[i - 1], &other = lane.boxes[i];
      if (!plan::does(one.kind, plan::kForwardPass) || one.part != Box::Part::Whole || other.start >= one.end)
        continue;
      one.part = Box::Part::Upper;
      other.part = Box::Part::Lower;
    }
  }
  section.length = first == INT64_MAX ? 0 : last - first;
}

Section sectionOf(const plan::Variant &variant) {
  Section section;
  section.lanes.resize(variant.programs.size());
  for (size_t rank = 0; rank != variant.programs.size(); ++rank) {
    section.lanes[rank].rank = int32_t(rank);
    section.chunks = std::max(section.chunks, int(variant.programs[rank].stages.size()));
  }
  const std::string name = variant.name.empty() ? variant.schedule : variant.name;
  section.copies = variant.copies;
  const std::string parts = variant.copies > 1   ? fmt::format(", {} directions", variant.copies)
                            : section.chunks > 1 ? fmt::format(" of {} chunks", section.chunks)
                                                 : "";
  section.title =
      fmt::format("{}{}{} ranks{}, {} microbatches{}", name, name.empty() ? "" : ": ", variant.programs.size(), parts,
                  variant.wholeMicrobatches(), variant.slices > 1 ? fmt::format(" of {} slices", variant.slices) : "");
  section.bound = variant.certificate.lowerBound;
  return section;
}

double bubbleOf(const std::vector<Lane> &lanes, Time length, bool measured) {
  double busy = 0, ranks = 0;
  for (const Lane &lane : lanes) {
    if (lane.measured != measured)
      continue;
    ++ranks;
    Time until = 0; // what overlaps counts once
    for (const Box &box : lane.boxes) {
      busy += double(std::max<Time>(box.end - std::max(box.start, until), 0));
      until = std::max(until, box.end);
    }
  }
  return length == 0 ? 0 : 1 - busy / (ranks * double(length));
}

/// All that a step of the variant executes on devices, untimed.
Timings operationsOf(const plan::Variant &variant) {
  Timings operations;
  for (const plan::Program &program : variant.programs)
    for (plan::Cursor c(program); !c.done(); c.next())
      if (const plan::Step s = c.at(); isDrawn(s.operation->kind))
        operations[{program.rank, s.operation->kind, s.operation->stage, s.microbatch()}] = {};
  return operations;
}

/// A step of the trace, by what identifies its operations. Of what ran again after a restart, the last run counts.
Timings timingsOf(const std::vector<trace::Event> &events, int64_t step) {
  int32_t attempt = 0;
  for (const trace::Event &event : events)
    if (event.step == step)
      attempt = std::max(attempt, event.attempt);
  Timings timings;
  for (const trace::Event &event : events)
    if (event.step == step && event.attempt == attempt && isDrawn(event.kind))
      timings[{event.rank, event.kind, event.stage, event.microbatch}] = {event.start, event.end};
  return timings;
}

/// What differs between a step and the plan; empty where the step has all that the plan has and nothing else.
std::string differenceOf(const Timings &wanted, const Timings &found) {
  const auto said = [](const Identity &identity) {
    const auto &[rank, kind, stage, microbatch] = identity;
    return fmt::format("{} of stage {}, microbatch {} on rank {}", plan::name(kind), stage, microbatch, rank);
  };
  for (const auto &[identity, timed] : wanted)
    if (!found.contains(identity))
      return fmt::format("has no {}, which the plan has", said(identity));
  for (const auto &[identity, timed] : found)
    if (!wanted.contains(identity))
      return fmt::format("has {}, which the plan has not", said(identity));
  return {};
}

Status chooseStep(const plan::Variant &variant, const std::vector<trace::Event> &events, int64_t step, int64_t &chosen,
                  Timings &timings) {
  std::map<int64_t, int64_t> counts; // step → operations
  for (const trace::Event &event : events)
    counts[event.step] += isDrawn(event.kind);
  const Timings wanted = operationsOf(variant);
  if (step >= 0 && !counts.contains(step))
    return Status::usage(
        fmt::format("the trace has no step {}, but {} to {}", step, counts.begin()->first, counts.rbegin()->first));
  std::string why;
  for (auto each = counts.rbegin(); each != counts.rend(); ++each) {
    if (step >= 0 && each->first != step)
      continue;
    // Steps of another length need not be looked at, but for the last that is left: it says what does not agree.
    if (step < 0 && each->second < int64_t(wanted.size()) && std::next(each) != counts.rend())
      continue;
    chosen = each->first;
    timings = timingsOf(events, chosen);
    why = differenceOf(wanted, timings);
    if (why.empty())
      return {};
  }
  return Status::input(fmt::format("step {} of the trace {}; expected a trace of this plan", chosen, why));
}

} // namespace

Time Picture::scale() const {
  Time longest = 1;
  for (const Section &section : sections)
    longest = std::max(longest, section.length);
  return longest;
}

Status predicted(const plan::Variant &variant, int64_t step, Section &section, const Network &network) {
  section = sectionOf(variant);
  const int64_t last = network.scenario ? step : std::min(step, kSettled); // a network may change at any step
  simulate::Options run;
  run.scenario = network.scenario;
  if (network.scenario)
    section.bound = 0; // holds for the spec's links
  run.steps = last + 1;
  run.observe = [&](const simulate::Event &event) {
    if (event.step == last && isDrawn(event.operation->kind) && event.end > event.start)
      section.lanes[size_t(event.rank)].boxes.push_back(
          {event.operation->kind, chunkOf(variant.programs[size_t(event.rank)], event.operation->stage),
           variant.numberOf(event.operation->stage, event.microbatch), event.start, event.end});
  };
  simulate::Result result;
  if (Status status = simulate::simulate(variant, run, result); !status.ok())
    return status;
  settle(section);
  for (const simulate::RankResult &rank : result.ranks)
    section.activations = std::max(section.activations, rank.peakActivation);
  section.figures = fmt::format("makespan {}, bubble {:.2f} %", plan::timeText(section.length),
                                100 * bubbleOf(section.lanes, section.length, false));
  if (section.bound > 0)
    section.figures += fmt::format(", gap {:.2f} %", 100 * (double(section.length) / double(section.bound) - 1));
  if (section.activations > 0)
    section.figures += fmt::format(", activations {}", plan::bytesText(section.activations));
  if (network.scenario)
    section.figures += fmt::format(", {}under {}", step > 0 ? fmt::format("step {} ", step) : "", network.name);
  return {};
}

Status compared(const plan::Variant &variant, const trace::Run &traced, int64_t step, Section &section,
                const Network &network) {
  int64_t chosen = 0;
  Timings timings;
  if (Status status = chooseStep(variant, traced.events, step, chosen, timings); !status.ok())
    return status;
  Section plan;
  if (Status status = predicted(variant, chosen, plan, network); !status.ok())
    return status;
  Section run = sectionOf(variant);
  Time begin = INT64_MAX;
  for (const auto &[identity, timed] : timings) {
    const auto &[rank, kind, stage, microbatch] = identity;
    begin = std::min(begin, timed.start);
    run.lanes[size_t(rank)].boxes.push_back({kind, chunkOf(variant.programs[size_t(rank)], stage),
                                             variant.numberOf(stage, microbatch), timed.start, timed.end});
  }
  settle(run);

  // How late each operation ends, both steps beginning together.
  std::map<std::tuple<size_t, plan::Kind, int32_t, int64_t>, Time> due;
  for (size_t rank = 0; rank != plan.lanes.size(); ++rank)
    for (const Box &box : plan.lanes[rank].boxes)
      due[{rank, box.kind, box.chunk, box.microbatch}] = box.end;
  double sum = 0;
  Time most = -1;
  std::string worst;
  int64_t count = 0;
  for (size_t rank = 0; rank != run.lanes.size(); ++rank)
    for (const Box &box : run.lanes[rank].boxes) {
      const auto found = due.find({rank, box.kind, box.chunk, box.microbatch});
      if (found == due.end())
        continue; // takes no time in the plan
      const Time off = std::abs(box.end - found->second);
      sum += double(off);
      ++count;
      if (off > most) {
        most = off;
        worst = fmt::format("{}{} on rank {}", plan::name(box.kind),
                            plan::isCompute(box.kind) ? std::to_string(box.microbatch) : "", rank);
      }
    }

  section = std::move(plan);
  section.figures = fmt::format(
      "step {}: predicted {}{}, measured {} ({:+.2f} %), bubble {:.2f} and {:.2f} %; an operation ends {} off, at most "
      "{} "
      "({})",
      chosen, plan::timeText(section.length), network.scenario ? " under " + network.name : "",
      plan::timeText(run.length), section.length == 0 ? 0.0 : 100 * (double(run.length) / double(section.length) - 1),
      100 * bubbleOf(section.lanes, section.length, false), 100 * bubbleOf(run.lanes, run.length, false),
      plan::timeText(count == 0 ? 0 : Time(sum / double(count))), plan::timeText(std::max<Time>(most, 0)), worst);
  section.decisions = StepDecisions(traced).of(chosen, begin);
  section.lanesPerRank = 2;
  section.length = std::max(section.length, run.length);
  section.bound = 0;
  std::vector<Lane> lanes;
  for (size_t rank = 0; rank != run.lanes.size(); ++rank) {
    lanes.push_back(std::move(section.lanes[rank]));
    lanes.push_back(std::move(run.lanes[rank]));
    lanes.back().measured = true;
  }
  section.lanes = std::move(lanes);
  return {};
}

std::string comparison(const Section &first, const Section &second) {
  std::string text = "the second";
  if (first.length > 0)
    text += fmt::format(" takes {:.3f} times as long as the first", double(second.length) / double(first.length));
  if (first.activations > 0)
    text += fmt::format("{} holds {:.3f} times its activations", first.length > 0 ? ", and" : "",
                        double(second.activations) / double(first.activations));
  return text;
}

} // namespace pipec::emit
