// A rank's report after a run, and the duration of each step by the reports of all ranks. Durations are defined as in
// runtime/simulate/Steps.h for virtual time.
#pragma once

#include "runtime/device/Layout.h"
#include "runtime/device/Meter.h"
#include "runtime/device/Recorder.h"
#include "runtime/launch/messages/FromRanks.h"

#include <string>
#include <vector>

namespace pipec::runtime {

/// What the background job of a process has done.
struct JobDone {
  int32_t job = -1; // index among the plan's jobs; -1: none
  int64_t pieces = 0, atoms = 0;
  std::string ended;               // why it stopped or failed; empty: it ran to the end
  plan::Time solo = 0, filled = 0; // median step time without and with the job's work, picoseconds; 0: unknown
};

/// An evaluation that a rank ran before `step`.
struct Evaluated {
  int64_t step = 0;
  plan::Time took = 0;
};

struct RankReport {
  std::vector<StepTimes> steps;
  Lateness lateness;
  Lateness permitWaits;             // how long each step waited for its permit
  std::vector<trace::Event> events; // empty without a trace
  std::vector<OwnTimes> own;        // by step, with shards
  std::vector<Evaluated> evaluations;
  JobDone job;
};

/// Makes a rank's report from what its queues have recorded.
RankReport summarize(const std::vector<Recorder> &recorders);

messages::Report toMessage(const RankReport &report);
/// The reverse. False if the message is no possible report.
bool fromMessage(const messages::Report &message, int32_t rank, RankReport &report);

/// Packs events into a flat list of numbers: an object per event would take ten times as much.
std::vector<int64_t> packEvents(const std::vector<trace::Event> &events);
/// Whether these numbers can be packed events.
bool areEvents(const std::vector<int64_t> &packed);
std::vector<trace::Event> unpackEvents(const std::vector<int64_t> &packed, int32_t rank);

/// Packs what a rank has measured (Meter.h) in the same way.
std::vector<int64_t> packSamples(const std::vector<adapt::Sample> &samples);
std::vector<adapt::Sample> unpackSamples(const std::vector<int64_t> &packed);

/// The duration of each of the steps [first, end): the longest of any rank. A rank's step lasts from its last end in
/// the step before to its last end in this one; the first step, from its first start.
std::vector<plan::Time> stepTimes(const std::vector<std::vector<StepTimes>> &ranks, int64_t first, int64_t end);

/// The same from reports, without the time of evaluations.
std::vector<plan::Time> measuredSteps(const std::vector<RankReport> &reports, int64_t first, int64_t end);

/// Writes a trace file; `layouts` name the queues. Writes the whole file or nothing (Code::Run).
Status writeTrace(const std::string &path, const std::vector<Layout> &layouts, const std::vector<trace::Event> &events,
                  const std::vector<trace::Decision> &decisions = {});

} // namespace pipec::runtime
