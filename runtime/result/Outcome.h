// The outcome of a run that ended well, and what was predicted for it.
#pragma once

#include "runtime/launch/Local.h"

#include <array>
#include <string>

namespace pipec::runtime {

/// Reads, checks and proves every variant (P36, P37), as `pipec verify` does. `hash`: hash of the file, which processes
/// compare.
Status readProved(const std::string &path, plan::Plan &plan, std::array<uint8_t, 32> &hash);

/// The longest step, by the certificates or under the options' network (up to where it cuts a link).
plan::Time longestStep(const plan::Plan &plan, const RunOptions &options);

/// A run that ended well, and what was predicted for it.
struct Outcome {
  std::shared_ptr<const plan::Plan> plan;
  /// By the first variant, on the plan's network.
  struct {
    plan::Time span = 0, makespan = 0;
  } predicted;
  Pace pace = Pace::Carry;
  std::string device, transport, communicator, stage;
  int64_t asked = 0; // steps
  std::vector<plan::Time> measured;
  std::vector<plan::Time> simulated;
  LocalResult result; // for a run that a launcher has started: result.run alone
};

/// The trace file of a process of a launched run: "trace.json" → "trace.3.json".
std::string traceOf(const std::string &path, int32_t process);

/// Fills in what was measured in `outcome.result` and predicted for it.
Status conclude(const RunOptions &options, Outcome &outcome);

/// What `piperun --json` prints. Milliseconds as full doubles.
std::string toJson(const Outcome &outcome);

// Parts of that output.

inline double milliseconds(double picoseconds) { return picoseconds / 1e9; }
const char *nameOf(Pace pace);
/// Each evaluation, with the longest duration of any process.
std::vector<Evaluated> evaluationsOf(const Outcome &outcome);
/// Lateness of operations against their deadlines, on all ranks.
Lateness latenessOf(const Outcome &outcome);

} // namespace pipec::runtime
