#include "compiler/explain/Explain.h"

#include "compiler/explain/FilledWaits.h"
#include "runtime/plan/Disassemble.h"
#include "runtime/plan/Text.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace pipec::emit {

using plan::milliseconds;
using plan::Time;
using simulate::Cause;
using simulate::Executed;
using simulate::Occurrence;
using simulate::Why;

namespace {

/// "F stage 1 microbatch 2", without the rank.
std::string nameOf(const plan::Variant &variant, const Executed &executed) {
  std::string text =
      plan::describe(0, *executed.operation, variant.numberOf(executed.operation->stage, executed.microbatch()));
  return text.substr(text.find(": ") + 2);
}

/// The same with the other pass of an overlapped pair, if it is in one.
std::string nameOf(const plan::Variant &variant, const simulate::Recording &recording, const Occurrence &place) {
  const std::optional<Occurrence> with = recording.overlappedWith(place);
  if (!with)
    return nameOf(variant, recording.at(place));
  return fmt::format("{} overlapped with {}", nameOf(variant, recording.at(std::min(place, *with))),
                     nameOf(variant, recording.at(std::max(place, *with))));
}

/// The instruction of a process's device that runs at a moment, or else the first after it.
std::optional<Occurrence> runningOrNext(const plan::Program &program, const simulate::Recording &recording,
                                        int32_t place, Time at) {
  std::optional<Occurrence> best;
  for (uint32_t q = 0; q != program.queues.size(); ++q) {
    if (program.queues[q].kind != plan::QueueKind::Device)
      continue;
    const std::vector<Executed> &own = recording.queue(place, q, 0);
    // An instruction that takes no time runs at no moment.
    auto it = std::partition_point(own.begin(), own.end(), [&](const Executed &e) { return e.end <= at; });
    while (it != own.end() && it->end == it->start)
      ++it;
    if (it != own.end() && (!best || it->start < recording.at(*best).start))
      best = Occurrence{place, q, 0, it - own.begin()};
  }
  return best;
}

/// When the process's device last ended something before a moment.
Time idleSince(const plan::Program &program, const simulate::Recording &recording, int32_t place, Time at) {
  Time since = 0;
  for (uint32_t q = 0; q != program.queues.size(); ++q) {
    if (program.queues[q].kind != plan::QueueKind::Device)
      continue;
    const std::vector<Executed> &own = recording.queue(place, q, 0);
    auto it = std::partition_point(own.begin(), own.end(), [&](const Executed &e) { return e.end <= at; });
    if (it != own.begin())
      since = std::max(since, std::prev(it)->end);
  }
  return since;
}

/// The chain that ends with an instruction.
class Chain {
public:
  Chain(const plan::Variant &variant, const simulate::Recording &recording) : variant(variant), recording(recording) {}

  /// `last` and all its causes; of a process that waits for another shard in it or has, where `met` says so, what came
  /// last. What a device runs one after the other is one link.
  std::vector<CauseLink> to(const Occurrence &last, bool met) {
    Occurrence at = last;
    begin(at);
    if (met)
      at = hold(at);
    const Cause first = recording.causeOf(at);
    links.back().why = first.why;
    for (Cause cause = first; cause.by && cause.by->step == last.step;) {
      const Occurrence by = *cause.by;
      if (cause.why == Why::Order && links.size() > 1 && links.back().place == by.place)
        extend(by);
      else
        begin(by);
      at = recording.heldBy(by) ? hold(by) : by;
      cause = recording.causeOf(at);
      links.back().why = cause.why;
    }
    return std::move(links);
  }

private:
  std::string processName(int32_t place) const { return plan::processName(place, {1, variant.shards()}); }

  void begin(const Occurrence &of) {
    const Executed &executed = recording.at(of);
    latest = nameOf(variant, recording, of);
    CauseLink link{fmt::format("{} runs {}", processName(of.place), latest), of.place, 1, executed.start, executed.end};
    if (const plan::Kind kind = executed.operation->kind; plan::isTransfer(kind)) {
      const Occurrence send = plan::sends(kind) ? of : recording.peerOf(of), recv = recording.peerOf(send);
      const plan::Operation &operation = *recording.at(send).operation;
      link.place = recv.place;
      link.what =
          fmt::format("{} sends {} stage {} microbatch {} to {}", processName(send.place),
                      operation.of == plan::Payload::Forward ? "F" : "B", operation.stage,
                      variant.numberOf(operation.stage, recording.at(send).microbatch()), processName(recv.place));
    }
    links.push_back(std::move(link));
  }

  /// What the same device ran before the last link.
  void extend(const Occurrence &by) {
    CauseLink &whole = links.back();
    whole.start = recording.at(by).start;
    ++whole.instructions;
    whole.what = fmt::format("{} runs {} instructions, {} to {}", processName(by.place), whole.instructions,
                             nameOf(variant, recording, by), latest);
  }

  /// The last link begins when the shards met; before it stands what came last, up to then.
  Occurrence hold(const Occurrence &of) {
    const Time met = recording.at(of).met;
    links.back().start = met;
    links.back().why = Why::Sum;
    const Occurrence by = *recording.heldBy(of)->by;
    begin(by);
    links.back().end = met;
    return by;
  }

  const plan::Variant &variant;
  const simulate::Recording &recording;
  std::vector<CauseLink> links;
  std::string latest; // the latest instruction of the link being made
};

/// When something starts, by what kept it from an earlier start.
const char *asSoonAs(Why why) {
  switch (why) {
  case Why::Begin:
    return "at the start of the step";
  case Why::Order:
    return "as soon as its device is free";
  case Why::Data:
    return "as soon as its data are there";
  case Why::Buffer:
    return "as soon as its buffer is free";
  case Why::Memory:
    return "as soon as enough W have given back their memory";
  case Why::Queue:
    return "as soon as the transfers before it are done";
  case Why::Launch:
    return "as soon as what its rank issued before it has started";
  case Why::Sum:
    return "with the last shard of its rank";
  }
  return "";
}

} // namespace

const char *name(Why why) {
  switch (why) {
  case Why::Begin:
    return "begin";
  case Why::Order:
    return "order";
  case Why::Data:
    return "data";
  case Why::Buffer:
    return "buffer";
  case Why::Memory:
    return "memory";
  case Why::Queue:
    return "queue";
  case Why::Launch:
    return "launch";
  case Why::Sum:
    return "sum";
  }
  return "";
}

/// The last link, whose start (or, where it waits in a sum, whose meeting) the limits may hold up.
static Status explainIn(const plan::Variant &variant, const simulate::Recording &recording, const plan::Place &place,
                        Time at, Explanation &explanation, Occurrence &last) {
  if (place.rank < 0 || size_t(place.rank) >= variant.programs.size())
    return Status::usage(
        fmt::format("there is no rank {}: the ranks are 0 to {}", place.rank, variant.programs.size() - 1));
  if (place.shard < 0 || place.shard >= place.shards)
    return Status::usage(
        fmt::format("there is no shard {} of a rank: the shards are 0 to {}", place.shard, place.shards - 1));
  explanation = {};
  explanation.place = place;
  explanation.at = at;
  explanation.makespan = recording.result.makespan;
  if (at >= explanation.makespan)
    return Status::usage(
        fmt::format("the step ends at {}, {} is not in it", plan::timeText(explanation.makespan), plan::timeText(at)));
  const plan::Program &program = variant.programs[size_t(place.rank)];
  const std::optional<Occurrence> found = runningOrNext(program, recording, place.world(), at);
  explanation.from = idleSince(program, recording, place.world(), at);
  last = found ? *found : recording.criticalPath(0).back();
  explanation.to = explanation.makespan;
  bool met = recording.heldBy(last).has_value();
  if (found) {
    const Executed &executed = recording.at(*found);
    met = met && executed.came <= at;
    explanation.meets = met && at < executed.met;
    explanation.busy = executed.start <= at && !explanation.meets;
    explanation.next = nameOf(variant, recording, *found);
    if (explanation.meets)
      explanation.from = executed.came;
    else if (explanation.busy)
      explanation.from = met ? executed.met : executed.start;
    explanation.to = explanation.meets                ? executed.met
                     : !explanation.busy              ? executed.start
                     : !met && recording.heldBy(last) ? executed.came
                                                      : executed.end;
  }
  explanation.chain = Chain(variant, recording).to(last, met);
  if (!explanation.busy && !explanation.meets)
    explanation.job = filledText(variant, program,
                                 {found ? recording.at(*found).instruction : nullptr, found && found->index == 0,
                                  explanation.to - explanation.from},
                                 explanation.pieces);
  return {};
}

Status explain(const plan::Variant &variant, int32_t rank, Time at, Explanation &explanation, int32_t shard) {
  constexpr size_t kLimits = 4; // each is one more run
  simulate::Recording recording;
  if (Status status = recording.run(variant, {}); !status.ok())
    return status;
  Occurrence last;
  const plan::Place place{.rank = rank, .shard = shard, .shards = variant.shards()};
  if (Status status = explainIn(variant, recording, place, at, explanation, last); !status.ok())
    return status;
  return gains(variant, recording, last, kLimits, explanation.gains);
}

Status explainRun(const plan::Variant &variant, const simulate::Recording &run, int32_t rank, Time at,
                  Explanation &explanation, int32_t shard) {
  Occurrence last;
  const plan::Place place{.rank = rank, .shard = shard, .shards = variant.shards()};
  const Status status = explainIn(variant, run, place, at, explanation, last);
  explanation.measured = true;
  return status;
}

std::string explanationJson(const Explanation &explanation) {
  const int32_t shards = explanation.place.shards;
  nlohmann::ordered_json object = {{"rank", explanation.place.rank}};
  if (shards > 1)
    object["shard"] = explanation.place.shard;
  object.update(
      {{"at_ms", milliseconds(explanation.at)},
       {"busy", explanation.busy},
       {"from_ms", milliseconds(explanation.from)},
       {"to_ms", milliseconds(explanation.to)},
       {"next", explanation.next.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(explanation.next)},
       {"makespan_ms", milliseconds(explanation.makespan)}});
  if (!explanation.job.empty()) {
    object["job"] = explanation.job;
    object["pieces"] = explanation.pieces;
  }
  object["causes"] = nlohmann::ordered_json::array();
  for (const CauseLink &link : explanation.chain) {
    nlohmann::ordered_json cause = {{"what", link.what}, {"rank", link.place / shards}};
    if (shards > 1)
      cause["shard"] = link.place % shards;
    cause.update({{"instructions", link.instructions},
                  {"start_ms", milliseconds(link.start)},
                  {"end_ms", milliseconds(link.end)},
                  {"because", name(link.why)}});
    object["causes"].push_back(std::move(cause));
  }
  object["limits"] = nlohmann::ordered_json::array();
  for (const Gain &gain : explanation.gains) {
    const Limit &limit = gain.limit;
    const bool link = limit.kind == Limit::Kind::Bandwidth || limit.kind == Limit::Kind::Latency;
    object["limits"].push_back(
        {{"limit", name(limit.kind)},
         {"rank", limit.rank},
         {"peer", limit.peer < 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(limit.peer)},
         {"direction", link || limit.peer < 0                     ? nlohmann::ordered_json()
                       : limit.direction == plan::Direction::Send ? nlohmann::ordered_json("send")
                                                                  : nlohmann::ordered_json("recv")},
         {"now", limit.now},
         {"raised", limit.raised},
         {"memory_bytes", limit.memory},
         {"what", describe(limit)},
         {"start_ms", milliseconds(gain.start)},
         {"earlier_ms", milliseconds(explanation.chain.front().start - gain.start)},
         {"makespan_ms", milliseconds(gain.makespan)},
         {"shorter_ms", milliseconds(explanation.makespan - gain.makespan)}});
  }
  return object.dump(2) + "\n";
}

static std::string gainsText(const Explanation &explanation) {
  if (explanation.gains.empty())
    return "No link, buffer or limit of memory stands in this chain: the work and its order make it.\n";
  auto change = [](Time before, Time after, const char *less, const char *more) {
    return before == after
               ? std::string()
               : fmt::format("{} {}", plan::timeText(std::abs(before - after)), before > after ? less : more);
  };
  std::string text = "What would change it, each simulated alone:\n";
  for (const Gain &gain : explanation.gains) {
    const std::string start = change(explanation.chain.front().start, gain.start, "earlier", "later"),
                      step = change(explanation.makespan, gain.makespan, "less", "more");
    text += fmt::format("  {}: {}\n", describe(gain.limit),
                        start.empty() && step.empty()
                            ? "no gain"
                            : fmt::format("starts {}, the step takes {}", start.empty() ? "then too" : start,
                                          step.empty() ? "as long" : step));
  }
  return text;
}

std::string explanationText(const Explanation &explanation, size_t links) {
  const std::string from = plan::timeText(explanation.from), to = plan::timeText(explanation.to);
  std::string text;
  const std::string who = plan::nameOf(explanation.place), job = explanation.job + (explanation.job.empty() ? "" : " ");
  if (explanation.next.empty())
    text = fmt::format("{} has done its step at {}; the step ends at {}. {}What ends last, and its causes:\n", who,
                       from, to, job);
  else if (explanation.meets)
    text = fmt::format("{} waits in a sum from {} to {}. What goes on then, and its causes:\n", who, from, to);
  else if (explanation.busy)
    text = fmt::format("{} is busy from {} to {}. What runs, and its causes:\n", who, from, to);
  else
    text = fmt::format("{} is idle from {} to {}. {}What runs then, and its causes:\n", who, from, to, job);
  for (size_t i = 0; i != std::min(links, explanation.chain.size()); ++i) {
    const CauseLink &link = explanation.chain[i];
    text += fmt::format("  {:>10} to {:>10}  {}, {}\n", plan::timeText(link.start), plan::timeText(link.end), link.what,
                        asSoonAs(link.why));
  }
  if (explanation.chain.size() > links)
    text += fmt::format("  … and {} more, back to {} (all with --json)\n", explanation.chain.size() - links,
                        plan::timeText(explanation.chain.back().start));
  return explanation.measured ? text : text + gainsText(explanation);
}

} // namespace pipec::emit
