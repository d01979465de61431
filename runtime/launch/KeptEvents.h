// What a process that writes its own trace did up to its checkpoints, kept in their folder: when a launcher starts all
// processes again, the trace goes on where the run does. So it has every step once, as one of `--local --restart` has.
#pragma once

#include "runtime/plan/Status.h"
#include "runtime/trace/Trace.h"

#include <string>
#include <vector>

namespace pipec::runtime {

class KeptEvents {
public:
  /// For attempt number `attempt`, which begins at step `first`. What earlier attempts did from there on is done again,
  /// so it is dropped; attempt 0 begins with nothing. `startedAt`: the instant of its time 0, in nanoseconds since
  /// 1970, the same on all ranks; times go on from those of the first attempt that anything is kept of.
  KeptEvents(std::string folder, int32_t rank, int32_t attempt, int64_t first, int64_t startedAt);

  /// At a checkpoint after `step` steps: what was done since the last one (Code::Run if it cannot be written).
  Status keep(int64_t step, const std::vector<trace::Event> &events) const;

  /// All that is kept, and then `last` (Code::Run if a kept file is damaged).
  Status all(const std::vector<trace::Event> &last, std::vector<trace::Event> &events) const;

  /// Once the trace is written: nothing is kept any more.
  void clear() const;

private:
  std::vector<std::string> files() const; // of this rank, by step
  int64_t stepOf(const std::string &name) const;
  std::string pathOf(const std::string &name) const;
  void add(const std::vector<trace::Event> &from, int32_t ofAttempt, int64_t time0,
           std::vector<trace::Event> &events) const;

  std::string folder;
  int32_t rank, attempt;
  int64_t startedAt;
  int64_t origin; // when the first attempt of which anything is kept started
};

} // namespace pipec::runtime
