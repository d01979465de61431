// What a queue did: when each step began and ended on it, how late its work was against its deadlines, and, for a
// trace, every instruction. Written by the one thread that runs the queue, read after the run.
#pragma once

#include "runtime/device/Device.h"
#include "runtime/trace/Trace.h"

#include <array>
#include <vector>

namespace pipec::runtime {

/// How late work ended, counted in buckets 1/16 wide of their size, so that a long run needs no more memory than a
/// short one.
class Lateness {
public:
  static constexpr size_t kBuckets = 61 * 16;

  void add(plan::Time late);
  void merge(const Lateness &other);
  int64_t count() const { return total; }
  double mean() const; // all in picoseconds
  plan::Time max() const { return largest; }
  /// `part` of all work was no later: 0.5 is the median. 0 if there was none.
  double quantile(double part) const;

  /// For sending it on: count, sum, largest, then the buckets up to the last filled one.
  std::vector<int64_t> pack() const;
  static Lateness unpack(const std::vector<int64_t> &packed);

private:
  std::array<int64_t, kBuckets> buckets{}; // by nanoseconds
  int64_t total = 0;
  int64_t sum = 0; // nanoseconds
  plan::Time largest = 0;
};

/// Of a rank's step, on device queues: what the simulator's RankResult holds.
struct StepTimes {
  plan::Time firstStart = INT64_MAX;
  plan::Time lastEnd = INT64_MIN;
};

struct Recorder {
  int32_t rank = 0;
  QueueId queue = 0;
  bool device = false; // a device queue: its work counts in `steps`
  bool trace = false;
  std::vector<StepTimes> steps;
  Lateness lateness;
  std::vector<trace::Event> events;

  /// `due`: when it should have started, so that lateness at the start of a run counts; `start` and `end`: when it
  /// really did; `late`: real end less deadline.
  void record(const Label &label, plan::Time due, plan::Time start, plan::Time end, plan::Time late);
};

} // namespace pipec::runtime
