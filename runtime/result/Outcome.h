// What came of a run that ended well, and what was predicted of it.
#pragma once

#include "runtime/launch/Local.h"

#include <array>
#include <string>

namespace pipec::runtime {

/// Reads, checks and proves every variant (P36, P37), as `pipec verify` does. `hash`: of the file, by which processes
/// compare it.
Status readProved(const std::string &path, plan::Plan &plan, std::array<uint8_t, 32> &hash);

/// As the certificates say, or under the options' network (up to where it cuts a link).
plan::Time longestStep(const plan::Plan &plan, const RunOptions &options);

/// A run that ended well, and what was predicted of it.
struct Outcome {
  std::shared_ptr<const plan::Plan> plan;
  /// Of the first variant, on the plan's network.
  struct {
    plan::Time span = 0, makespan = 0;
  } predicted;
  Pace pace = Pace::Carry;
  std::string device, transport, communicator, stage;
  int64_t asked = 0; // steps
  std::vector<plan::Time> measured;
  std::vector<plan::Time> simulated;
  LocalResult result; // of a run that others have started: result.run alone
};

/// Where a process of a launched run writes its trace: "trace.json" → "trace.3.json".
std::string traceOf(const std::string &path, int32_t process);

/// Fills in what was measured and predicted of `outcome.result`.
Status conclude(const RunOptions &options, Outcome &outcome);

/// What `piperun --json` prints. Milliseconds as full doubles.
std::string toJson(const Outcome &outcome);

// Parts of it.

inline double milliseconds(double picoseconds) { return picoseconds / 1e9; }
const char *nameOf(Pace pace);
/// Each evaluation, on the process that took longest for it.
std::vector<Evaluated> evaluationsOf(const Outcome &outcome);
/// Of operations against their deadlines, on all ranks.
Lateness latenessOf(const Outcome &outcome);

} // namespace pipec::runtime
