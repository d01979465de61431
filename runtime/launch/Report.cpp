#include "runtime/launch/Report.h"

#include <algorithm>
#include <array>
#include <utility>

namespace pipec::runtime {

using plan::Time;

RankReport summarize(const std::vector<Recorder> &recorders) {
  RankReport report;
  for (const Recorder &recorder : recorders) {
    if (report.steps.size() < recorder.steps.size())
      report.steps.resize(recorder.steps.size());
    for (size_t s = 0; s < recorder.steps.size(); ++s) {
      report.steps[s].firstStart = std::min(report.steps[s].firstStart, recorder.steps[s].firstStart);
      report.steps[s].lastEnd = std::max(report.steps[s].lastEnd, recorder.steps[s].lastEnd);
    }
    if (report.own.size() < recorder.own.size())
      report.own.resize(recorder.own.size());
    for (size_t s = 0; s < recorder.own.size(); ++s) {
      report.own[s].own += recorder.own[s].own;
      report.own[s].planned += recorder.own[s].planned;
    }
    report.lateness.merge(recorder.lateness);
    std::vector<trace::Event> events = recorder.events();
    report.events.insert(report.events.end(), events.begin(), events.end());
  }
  return report;
}

static constexpr size_t kPacked = 19; // numbers of an event

std::vector<int64_t> packEvents(const std::vector<trace::Event> &events) {
  std::vector<int64_t> packed;
  packed.reserve(kPacked * events.size());
  for (const trace::Event &e : events)
    packed.insert(packed.end(), {e.queue, int64_t(e.kind), int64_t(e.of), e.stage, e.peer, e.microbatch, e.step,
                                 e.epoch, e.start, e.end, e.taken, e.freed, e.scope.firstLayer, e.scope.layers,
                                 e.scope.begin, e.scope.end, e.own, e.waited, e.atoms});
  return packed;
}

bool areEvents(const std::vector<int64_t> &packed) {
  bool right = packed.size() % kPacked == 0;
  for (size_t i = 0; right && i != packed.size(); i += kPacked)
    right = packed[i + 1] >= 0 && packed[i + 1] < plan::kKinds && packed[i + 2] >= 0 &&
            packed[i + 2] <= int64_t(plan::Payload::Shared);
  return right;
}

std::vector<trace::Event> unpackEvents(const std::vector<int64_t> &e, int32_t rank) {
  std::vector<trace::Event> events;
  for (size_t i = 0; i + kPacked <= e.size(); i += kPacked)
    events.push_back({rank,
                      uint32_t(e[i]),
                      plan::Kind(e[i + 1]),
                      plan::Payload(e[i + 2]),
                      int32_t(e[i + 3]),
                      int32_t(e[i + 4]),
                      e[i + 5],
                      e[i + 6],
                      e[i + 7],
                      e[i + 8],
                      e[i + 9],
                      e[i + 10],
                      e[i + 11],
                      0,
                      {int32_t(e[i + 12]), int32_t(e[i + 13]), e[i + 14], e[i + 15]},
                      e[i + 16],
                      e[i + 17],
                      e[i + 18]});
  return events;
}

std::vector<int64_t> packSamples(const std::vector<adapt::Sample> &samples) {
  std::vector<int64_t> packed;
  for (const adapt::Sample &s : samples)
    packed.insert(packed.end(), {s.from, s.to, s.end, s.tally.count, s.tally.sum, s.tally.least, s.tally.greatest,
                                 s.tally.planned, s.tally.bytes});
  return packed;
}

std::vector<adapt::Sample> unpackSamples(const std::vector<int64_t> &p) {
  std::vector<adapt::Sample> samples;
  for (size_t i = 0; i + 9 <= p.size(); i += 9)
    samples.push_back(
        {p[i + 2], {p[i + 3], p[i + 4], p[i + 5], p[i + 6], p[i + 7], p[i + 8]}, int32_t(p[i]), int32_t(p[i + 1])});
  return samples;
}

messages::Report toMessage(const RankReport &report) {
  messages::Report message;
  for (const StepTimes &step : report.steps)
    message.steps.insert(message.steps.end(), {step.firstStart, step.lastEnd});
  for (const OwnTimes &step : report.own)
    message.own.insert(message.own.end(), {step.own, step.planned});
  for (const Evaluated &each : report.evaluations)
    message.evaluations.insert(message.evaluations.end(), {each.step, each.took});
  message.lateness = report.lateness.pack();
  message.permitWaits = report.permitWaits.pack();
  message.job = {report.job.job, report.job.pieces, report.job.atoms, report.job.solo, report.job.filled};
  message.jobEnded = report.job.ended;
  message.events = packEvents(report.events);
  return message;
}

bool fromMessage(const messages::Report &message, int32_t rank, RankReport &report) {
  if (message.steps.size() % 2 != 0 || message.own.size() % 2 != 0 || message.evaluations.size() % 2 != 0 ||
      !areEvents(message.events) || !std::in_range<int32_t>(message.job[0]))
    return false;
  for (size_t i = 0; i != message.steps.size(); i += 2)
    report.steps.push_back({message.steps[i], message.steps[i + 1]});
  for (size_t i = 0; i != message.own.size(); i += 2)
    report.own.push_back({message.own[i], message.own[i + 1]});
  for (size_t i = 0; i != message.evaluations.size(); i += 2)
    report.evaluations.push_back({message.evaluations[i], message.evaluations[i + 1]});
  report.lateness = Lateness::unpack(message.lateness);
  report.permitWaits = Lateness::unpack(message.permitWaits);
  const auto &[job, pieces, atoms, solo, filled] = message.job;
  report.job = {int32_t(job), pieces, atoms, message.jobEnded, solo, filled};
  report.events = unpackEvents(message.events, rank);
  return true;
}

std::vector<Time> stepTimes(const std::vector<std::vector<StepTimes>> &ranks, int64_t first, int64_t end) {
  std::vector<Time> times(size_t(end - first), 0);
  for (const auto &rank : ranks)
    for (size_t s = size_t(first); s < std::min(size_t(end), rank.size()); ++s)
      if (rank[s].firstStart <= rank[s].lastEnd) { // else the rank computed nothing in this step
        Time from = s == size_t(first) ? rank[s].firstStart : rank[s - 1].lastEnd;
        times[s - size_t(first)] = std::max(times[s - size_t(first)], rank[s].lastEnd - from);
      }
  return times;
}

std::vector<Time> measuredSteps(const std::vector<RankReport> &reports, int64_t first, int64_t end) {
  std::vector<std::vector<StepTimes>> ranks;
  for (const RankReport &report : reports) {
    std::vector<StepTimes> &steps = ranks.emplace_back(report.steps);
    Time stood = 0; // total time of the evaluations so far, taken off all times
    auto next = report.evaluations.begin();
    for (size_t s = 0; s != steps.size(); ++s) {
      for (; next != report.evaluations.end() && next->step <= int64_t(s); ++next)
        stood += next->took;
      if (steps[s].firstStart <= steps[s].lastEnd) {
        steps[s].firstStart -= stood;
        steps[s].lastEnd -= stood;
      }
    }
  }
  return stepTimes(ranks, first, end);
}

Status writeTrace(const std::string &path, const std::vector<Layout> &layouts, const std::vector<trace::Event> &events,
                  const std::vector<trace::Decision> &decisions) {
  std::vector<trace::Rank> ranks;
  for (const Layout &layout : layouts)
    ranks.push_back({layout.place, layout.names});
  Status status = trace::write(path, trace::toJson(ranks, events, decisions));
  return status.ok() ? status : Status::run(status.message);
}

} // namespace pipec::runtime
