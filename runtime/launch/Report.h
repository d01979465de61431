// What a rank reports after a run, and what follows from all reports: the time of each step, by the definition that
// runtime/simulate/Steps.h has for virtual time (design, section 7).
#pragma once

#include "runtime/device/Layout.h"
#include "runtime/device/Recorder.h"

#include <nlohmann/json.hpp>
#include <vector>

namespace pipec::runtime {

struct RankReport {
  std::vector<StepTimes> steps;
  Lateness lateness;
  Lateness permitWaits;             // of each step: how long it waited for its permit
  std::vector<trace::Event> events; // with a trace only
};

/// One report of a rank's queues.
RankReport summarize(const std::vector<Recorder> &recorders);

nlohmann::json toJson(const RankReport &report);
/// Flat lists of numbers: an object for each event would cost ten times as much.
std::vector<int64_t> packEvents(const std::vector<trace::Event> &events);
std::vector<trace::Event> unpackEvents(const std::vector<int64_t> &packed, int32_t rank);

/// `json` comes from toJson of a process of the same program.
RankReport fromJson(const nlohmann::json &json, int32_t rank);

/// For each of the steps [first, end) the longest time, over all ranks, from the rank's last end in the step before (in
/// the first step: its first start) to its last end in this one.
std::vector<plan::Time> stepTimes(const std::vector<std::vector<StepTimes>> &ranks, int64_t first, int64_t end);

std::vector<plan::Time> measuredSteps(const std::vector<RankReport> &reports, int64_t first, int64_t end);

/// Writes what ranks did, all or nothing (Code::Run); `layouts` name their queues.
Status writeTrace(const std::string &path, const std::vector<Layout> &layouts, const std::vector<trace::Event> &events);

} // namespace pipec::runtime
