// What a rank reports after a run, and what follows from the reports of all: the time of each step. That is defined as
// in runtime/simulate/Steps.h for virtual time.
#pragma once

#include "runtime/device/Layout.h"
#include "runtime/device/Meter.h"
#include "runtime/device/Recorder.h"
#include "runtime/launch/messages/FromRanks.h"

#include <string>
#include <vector>

namespace pipec::runtime {

/// What became of a process's job.
struct JobDone {
  int32_t job = -1; // of the plan; -1: it had none
  int64_t pieces = 0, atoms = 0;
  std::string ended;               // why it rests or has failed; empty: it went on to the end
  plan::Time solo = 0, filled = 0; // a step of the process without pieces and with them, in the median; 0: not known
};

/// An evaluation of a rank, before a step.
struct Evaluated {
  int64_t step = 0;
  plan::Time took = 0;
};

struct RankReport {
  std::vector<StepTimes> steps;
  Lateness lateness;
  Lateness permitWaits;             // how long each step waited for its permit
  std::vector<trace::Event> events; // empty without a trace
  std::vector<OwnTimes> own;        // by step, where ranks have shards
  std::vector<Evaluated> evaluations;
  JobDone job;
};

/// Makes a rank's report of what its queues have recorded.
RankReport summarize(const std::vector<Recorder> &recorders);

messages::Report toMessage(const RankReport &report);
/// The reverse; false if such a report cannot be.
bool fromMessage(const messages::Report &message, int32_t rank, RankReport &report);

/// Events as a flat list of numbers: an object for each would take ten times as much.
std::vector<int64_t> packEvents(const std::vector<trace::Event> &events);
/// Whether events can be these numbers.
bool areEvents(const std::vector<int64_t> &packed);
std::vector<trace::Event> unpackEvents(const std::vector<int64_t> &packed, int32_t rank);

/// Likewise, of what a rank has measured (Meter.h).
std::vector<int64_t> packSamples(const std::vector<adapt::Sample> &samples);
std::vector<adapt::Sample> unpackSamples(const std::vector<int64_t> &packed);

/// The time of each of the steps [first, end). For a rank it is from its last end in the step before to its last end in
/// this one; in the first step, from its first start. For the step it is the longest of any rank.
std::vector<plan::Time> stepTimes(const std::vector<std::vector<StepTimes>> &ranks, int64_t first, int64_t end);

/// The same for the steps of reports, without the time of evaluations.
std::vector<plan::Time> measuredSteps(const std::vector<RankReport> &reports, int64_t first, int64_t end);

/// Writes a trace file; `layouts` name the queues. Writes the whole file or nothing (Code::Run).
Status writeTrace(const std::string &path, const std::vector<Layout> &layouts, const std::vector<trace::Event> &events,
                  const std::vector<trace::Decision> &decisions = {});

} // namespace pipec::runtime
