// The options of a run.
#pragma once

#include "runtime/device/Pace.h"
#include "runtime/interpreter/CallPoint.h"
#include "runtime/plan/Plan.h"
#include "runtime/simulate/Scenario.h"
#include "runtime/stage/hosted/Hosting.h"

#include <map>
#include <memory>
#include <string>

namespace pipec::runtime {

/// The options that all processes of a run share.
struct RunOptions {
  int64_t steps = 1;
  std::string device = "host";       // or "cuda"
  std::string transport = "sockets"; // of GPUs "ipc" or "nccl"
  int32_t localRank = -1;            // this process's number on its machine, which chooses its GPU; -1: its rank
  std::string stage = "synthetic";   // what computes (runtime/stage/MakeStage.h)
  Pace pace = Pace::Carry;           // Real for every stage but the synthetic one
  plan::Time deadline = 0;           // the longest that a pass or a transfer may last, picoseconds; 0: no limit
  plan::Time idle = 0; // the longest that a process may save or load its state, make its stages, or, as a host, be in
                       // its first step or between two steps, picoseconds; 0: no limit
  plan::Time rendezvous = 0;                         // picoseconds until all processes must have met; 0: no limit
  bool trace = false;                                // whether events are reported to the controller
  std::string ownTrace;                              // the file to which the process writes its events; empty: none
  int32_t attempt = 0;                               // how often a launcher has started all processes before
  std::string checkpoint;                            // folder; empty: none
  int64_t every = 0;                                 // steps from one checkpoint to the next; 0: only one at the end
  int64_t evaluateEvery = 0;                         // steps from one evaluation to the next; 0: there are none
  std::shared_ptr<const simulate::Scenario> network; // links and ranks that differ from the plan's; null: none do
  bool realNetwork = false;                // whether transfers take what the sockets take; without a scenario only
  bool runsJobs = true;                    // whether the plan's background jobs run
  std::map<std::string, std::string> jobs; // what computes them, by name (runtime/job/MakeJob.h); others: synthetic
  bool measure = false;                    // whether processes keep what they measure, for the controller to ask for
  std::string keepsCut = "the run has no --checkpoint"; // why no layer can move; empty: layers can move
  std::vector<std::vector<CallPoint>>
      calls; // call points of the plan's variants, by rank; empty: the beginnings of steps

  Hosting hosting = {}; // for a host program that computes by itself

  bool hosted() const { return hosting.handover != nullptr; }
  /// Steps from one checkpoint to the next; 0: none before the end.
  int64_t savesEvery() const { return checkpoint.empty() ? 0 : every; }
  /// The most bytes that a transfer carries.
  plan::Bytes payload() const { return network || realNetwork || device != "host" ? INT64_MAX : payloadLimit(pace); }
};

} // namespace pipec::runtime
