#include "compiler/pictures/Picture.h"

#include "compiler/pictures/Decisions.h"
#include "compiler/pictures/Overlay.h"
#include "runtime/plan/Place.h"
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
using Identity = std::tuple<int32_t, plan::Kind, int32_t, int64_t, int32_t>; // rank, kind, stage, microbatch, layer

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
    for (Filled &each : lane.pieces) // those of this step may begin before it, those of the next end behind it
      each = {std::max<Time>(each.start - first, 0), std::min(each.end, last) - first};
    std::erase_if(lane.pieces, [](const Filled &each) { return each.end <= each.start; });
    std::ranges::sort(lane.pieces, {}, &Filled::start);
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
  section.lanes.resize(variant.places());
  for (size_t place = 0; place != variant.places(); ++place) {
    section.lanes[place].place = int32_t(place);
    section.chunks = std::max(section.chunks, int(variant.programOf(place).stages.size()));
  }
  const std::string name = variant.name.empty() ? variant.schedule : variant.name;
  section.copies = variant.copies;
  section.shards = variant.shards();
  const std::string parts = variant.copies > 1   ? fmt::format(", {} directions", variant.copies)
                            : section.chunks > 1 ? fmt::format(" of {} chunks", section.chunks)
                                                 : "";
  section.title =
      fmt::format("{}{}{} ranks{}{}, {} microbatches{}", name, name.empty() ? "" : ": ", variant.programs.size(),
                  section.shards > 1 ? fmt::format(" of {} shards", section.shards) : "", parts,
                  variant.wholeMicrobatches(), variant.slices > 1 ? fmt::format(" of {} slices", variant.slices) : "");
  section.bound = variant.certificate.lowerBound;
  return section;
}

/// Of lanes of passes.
double bubbleOf(const std::vector<Lane> &lanes, Time length) {
  double busy = 0, ranks = 0;
  for (const Lane &lane : lanes) {
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
  for (size_t place = 0; place != variant.places(); ++place)
    for (plan::Cursor c(variant.programOf(place)); !c.done(); c.next())
      if (const plan::Step s = c.at(); isDrawn(s.operation->kind))
        operations[{int32_t(place), s.operation->kind, s.operation->stage, s.microbatch(), s.operation->firstLayer}] =
            {};
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
      timings[{event.rank, event.kind, event.stage, event.microbatch, event.scope.firstLayer}] = {event.start,
                                                                                                  event.end};
  return timings;
}

/// What differs between a step and the plan; empty where the step has all that the plan has and nothing else.
std::string differenceOf(const Timings &wanted, const Timings &found, const plan::Grid &grid) {
  const auto said = [&](const Identity &identity) {
    const auto &[rank, kind, stage, microbatch, layer] = identity;
    return fmt::format("{} of stage {}, microbatch {} on {}", plan::name(kind), stage, microbatch,
                       plan::processName(rank, grid));
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
    why = differenceOf(wanted, timings, {1, variant.shards()});
    if (why.empty())
      return {};
  }
  return Status::input(fmt::format("step {} of the trace {}; expected a trace of this plan", chosen, why));
}

} // namespace

std::string placeName(const Section &section, const Lane &lane) {
  return plan::processName(lane.place, {1, section.shards});
}

std::string_view nameOf(const Section &section, const Lane &lane) {
  const auto exchanges = [](const Lane &each) { return each.kind == LaneKind::Exchange; };
  if (lane.kind != LaneKind::Plan)
    return exchanges(lane) ? "sums" : "run";
  return std::any_of(section.lanes.begin(), section.lanes.end(), exchanges) ? "work" : "plan";
}

Time Picture::scale() const {
  Time longest = 1;
  for (const Section &section : sections)
    longest = std::max(longest, section.length);
  return longest;
}

/// The passes of a step, and by rank its collectives with replicas.
static Status passesOf(const plan::Variant &variant, int64_t step, Section &section, const Network &network,
                       std::vector<Lane> &exchange) {
  section = sectionOf(variant);
  exchange = section.lanes;
  const int64_t last = network.scenario ? step : std::min(step, kSettled); // a network may change at any step
  simulate::Options run;
  run.scenario = network.scenario;
  if (network.scenario)
    section.bound = {}; // holds for the spec's links
  run.pieces = !variant.jobs.empty();
  run.steps = last + (run.pieces ? 2 : 1);
  run.observePieces = [&](const simulate::Resume &at, int64_t count) {
    if (at.step >= last)
      section.lanes[size_t(at.place)].pieces.push_back({at.free, at.free + count * at.piece});
  };
  run.observe = [&](const simulate::Event &event) {
    const plan::Operation &operation = *event.operation;
    const bool isExchange = plan::isExchange(operation);
    const auto add = [&](Time start, Time end) {
      if (event.step == last && (isExchange || isDrawn(operation.kind)) && end > start)
        (isExchange ? exchange : section.lanes)[size_t(event.place)].boxes.push_back(
            {operation.kind, chunkOf(variant.programs[size_t(event.rank)], operation.stage),
             variant.numberOf(operation.stage, event.microbatch), start, end, Box::Part::Whole, operation.firstLayer});
    };
    if (event.met > event.came) {
      add(event.start, event.came);
      add(event.met, event.end);
    } else {
      add(event.start, event.end);
    }
  };
  simulate::Result result;
  if (Status status = simulate::simulate(variant, run, result); !status.ok())
    return status;
  Time begin = INT64_MAX; // of the picture
  for (const Lane &lane : section.lanes)
    for (const Box &box : lane.boxes)
      begin = std::min(begin, box.start);
  for (Lane &lane : exchange) { // a collective may come before all that is drawn of the devices
    for (Box &box : lane.boxes) {
      box.start = std::max<Time>(box.start - begin, 0);
      box.end -= begin;
    }
    std::erase_if(lane.boxes, [](const Box &box) { return box.end <= box.start; });
  }
  settle(section);
  if (section.shards > 1)
    section.bubble = simulate::bubbleRate(result, section.length);
  for (const simulate::PlaceResult &rank : result.places)
    section.activations = std::max(section.activations, rank.peakActivation);
  return {};
}

/// Pieces of ranks that have nothing else to do.
static void fillAlone(const plan::Variant &variant, Section &section) {
  for (const plan::Program &program : variant.programs)
    if (program.runsJobAlone())
      section.lanes[size_t(program.rank)].pieces.push_back({0, section.length});
}

/// What is said of a section that has passes alone.
static std::string figuresOf(const Section &section) {
  std::string text =
      fmt::format("makespan {}, bubble {:.2f} %", plan::timeText(section.length),
                  100 * (section.bubble >= 0 ? section.bubble : bubbleOf(section.lanes, section.length)));
  if (section.bound > plan::LeastTime())
    text += fmt::format(", gap {:.2f} %", 100 * section.bound.gap(section.length));
  if (section.activations > 0)
    text += fmt::format(", activations {}", plan::bytesText(section.activations));
  return text;
}

Status predicted(const plan::Variant &variant, int64_t step, Section &section, const Network &network) {
  std::vector<Lane> exchange;
  if (Status status = passesOf(variant, step, section, network, exchange); !status.ok())
    return status;
  for (const Lane &lane : exchange)
    for (const Box &box : lane.boxes)
      section.length = std::max(section.length, box.end);
  fillAlone(variant, section);
  section.figures = figuresOf(section);
  if (network.scenario)
    section.figures += fmt::format(", {}under {}", step > 0 ? fmt::format("step {} ", step) : "", network.name);
  if (variant.layers.empty())
    return {};
  std::vector<Lane> lanes;
  for (size_t rank = 0; rank != exchange.size(); ++rank) {
    lanes.push_back(std::move(section.lanes[rank]));
    lanes.push_back(std::move(exchange[rank]));
    lanes.back().kind = LaneKind::Exchange;
  }
  section.lanes = std::move(lanes);
  section.lanesPerPlace = 2;
  return {};
}

Status compared(const plan::Variant &variant, const trace::Run &traced, int64_t step, Section &section,
                const Network &network) {
  int64_t chosen = 0;
  Timings timings;
  if (Status status = chooseStep(variant, traced.events, step, chosen, timings); !status.ok())
    return status;
  Section plan;
  std::vector<Lane> ignored;
  if (Status status = passesOf(variant, chosen, plan, network, ignored); !status.ok())
    return status;
  fillAlone(variant, plan);
  Section run = sectionOf(variant);
  Time begin = INT64_MAX;
  for (const auto &[identity, timed] : timings) {
    const auto &[rank, kind, stage, microbatch, layer] = identity;
    begin = std::min(begin, timed.start);
    run.lanes[size_t(rank)].boxes.push_back({kind, chunkOf(variant.programOf(size_t(rank)), stage),
                                             variant.numberOf(stage, microbatch), timed.start, timed.end,
                                             Box::Part::Whole, layer});
  }
  for (const trace::Event &piece : traced.pieces)
    if (size_t(piece.rank) < run.lanes.size())
      run.lanes[size_t(piece.rank)].pieces.push_back({piece.start, piece.end});
  settle(run);

  // How late each operation ends, both steps beginning together.
  std::map<std::tuple<size_t, plan::Kind, int32_t, int64_t, int32_t>, Time> due;
  for (size_t rank = 0; rank != plan.lanes.size(); ++rank)
    for (const Box &box : plan.lanes[rank].boxes)
      due[{rank, box.kind, box.chunk, box.microbatch, box.firstLayer}] = box.end;
  double sum = 0;
  Time most = -1;
  std::string worst;
  int64_t count = 0;
  for (size_t rank = 0; rank != run.lanes.size(); ++rank)
    for (const Box &box : run.lanes[rank].boxes) {
      const auto found = due.find({rank, box.kind, box.chunk, box.microbatch, box.firstLayer});
      if (found == due.end())
        continue; // takes no time in the plan
      const Time off = std::abs(box.end - found->second);
      sum += double(off);
      ++count;
      if (off > most) {
        most = off;
        worst = fmt::format("{}{} on {}", plan::name(box.kind),
                            plan::isCompute(box.kind) ? std::to_string(box.microbatch) : "",
                            placeName(run, run.lanes[rank]));
      }
    }

  section = std::move(plan);
  section.figures = fmt::format(
      "step {}: predicted {}{}, measured {} ({:+.2f} %), bubble {:.2f} and {:.2f} %; an operation ends {} off, at most "
      "{} "
      "({})",
      chosen, plan::timeText(section.length), network.scenario ? " under " + network.name : "",
      plan::timeText(run.length), section.length == 0 ? 0.0 : 100 * (double(run.length) / double(section.length) - 1),
      100 * bubbleOf(section.lanes, section.length), 100 * bubbleOf(run.lanes, run.length),
      plan::timeText(count == 0 ? 0 : Time(sum / double(count))), plan::timeText(std::max<Time>(most, 0)), worst);
  section.decisions = StepDecisions(traced).of(chosen, begin);
  section.lanesPerPlace = 2;
  section.length = std::max(section.length, run.length);
  section.bound = {};
  std::vector<Lane> lanes;
  for (size_t rank = 0; rank != run.lanes.size(); ++rank) {
    lanes.push_back(std::move(section.lanes[rank]));
    lanes.push_back(std::move(run.lanes[rank]));
    lanes.back().kind = LaneKind::Run;
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
