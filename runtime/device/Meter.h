// A meter collects what a rank measures while it runs: the transfers to it, from when both ends were ready until the
// data arrived, its operations, and when its steps ended. It keeps them until they are taken, in time slots that grow
// if nobody takes them, so that a long step needs no more memory than a short one.
#pragma once

#include "runtime/adapt/Measured.h"

#include <deque>
#include <mutex>
#include <utility>
#include <vector>

namespace pipec::runtime {

class Meter {
public:
  using Time = plan::Time;

  explicit Meter(int32_t rank) : Meter(rank, rank) {}
  /// `process`: the world rank, with shards (adapt::Slice::ranks).
  Meter(int32_t rank, int32_t process) : rank(rank), process(process) {}

  // From any thread.

  /// A transfer from `peer`. `latency`: the part of its time after the wire was free.
  void transferred(int32_t peer, Time begin, Time end, Time latency, plan::Bytes bytes);
  /// Operations; the last one ended at `end`.
  void computed(const adapt::Tally &operations, Time end);
  /// A step's last instruction on some queue of the device ended at `end`.
  void stepped(int64_t step, Time end);
  /// The rank has evaluated for `took` picoseconds. The meter leaves that time out of the ends of steps.
  void paused(Time took);

  struct Taken {
    std::vector<adapt::Sample> samples;
    std::vector<std::pair<int64_t, Time>> steps; // ends of steps before `complete` that were not taken yet
  };
  /// Returns what was measured since the last call. `complete`: all steps before it are complete.
  Taken take(int64_t complete);

private:
  /// The samples of a link, or of the rank's operations: ascending by time, one per time slot.
  struct Track {
    static constexpr size_t kMost = 32;
    Time piece = Time(1) << 24; // length of a time slot: 17 us at first
    std::vector<adapt::Sample> samples;
    void add(const adapt::Sample &sample);
    void append(const adapt::Sample &sample);
  };
  void add(int32_t from, int32_t to, const adapt::Tally &tally, Time end);

  const int32_t rank;
  const int32_t process;
  std::mutex mutex; // guards everything below
  Time pauses = 0;
  std::map<std::pair<int32_t, int32_t>, Track> tracks;
  std::deque<std::pair<int64_t, Time>> steps;
};

} // namespace pipec::runtime
