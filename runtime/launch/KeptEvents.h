// The events of a process that writes its own trace, kept in the folder of checkpoints. When a launcher starts all
// processes again, the run goes on from a checkpoint and the trace from the events up to it. So the trace has every
// step once, as that of `--local --restart` does.
#pragma once

#include "runtime/plan/Status.h"
#include "runtime/trace/Trace.h"

#include <string>
#include <vector>

namespace pipec::runtime {

class KeptEvents {
public:
  /// For attempt number `attempt`, which begins at step `first`. Drops the kept events of later steps, since these
  /// steps run again; attempt 0 drops all. `startedAt`: the instant of the attempt's time 0, in nanoseconds since 1970,
  /// the same on all ranks.
  KeptEvents(std::string folder, int32_t rank, int32_t attempt, int64_t first, int64_t startedAt);

  /// Keeps the events since the last checkpoint. To call at the checkpoint after `step` steps. Code::Run if they cannot
  /// be written.
  Status keep(int64_t step, const std::vector<trace::Event> &events) const;

  /// All kept events, and then `last`. Times count from the start of the first attempt with kept events. Code::Run if a
  /// kept file is damaged.
  Status all(const std::vector<trace::Event> &last, std::vector<trace::Event> &events) const;

  /// Drops all events, once the trace is written.
  void clear() const;

private:
  std::vector<std::string> files() const; // names of this rank's files, in the order of steps
  int64_t stepOf(const std::string &name) const;
  std::string pathOf(const std::string &name) const;
  void add(const std::vector<trace::Event> &from, int32_t ofAttempt, int64_t time0,
           std::vector<trace::Event> &events) const;

  std::string folder;
  int32_t rank, attempt;
  int64_t startedAt;
  int64_t origin; // `startedAt` of the first attempt with kept events
};

} // namespace pipec::runtime
