// What a rank measures while it runs: the transfers to it, from when both ends were ready until the data were there,
// its operations, and when its steps ended. Kept until somebody asks, in pieces of time that grow if nobody does, so
// that it needs no more memory in a long step than in a short one.
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
  /// `process`: among all, where ranks have shards (adapt::Slice::ranks).
  Meter(int32_t rank, int32_t process) : rank(rank), process(process) {}

  // From any thread.

  /// A transfer from `peer`. `latency`: the part of its time in which the wire was free already.
  void transferred(int32_t peer, Time begin, Time end, Time latency, plan::Bytes bytes);
  /// Operations, the last of which ended then.
  void computed(const adapt::Tally &operations, Time end);
  /// A step's last instruction on some queue of the device ended then.
  void stepped(int64_t step, Time end);
  /// The rank has evaluated for `took` picoseconds. The meter leaves that time out of the ends of steps.
  void paused(Time took);

  struct Taken {
    std::vector<adapt::Sample> samples;
    std::vector<std::pair<int64_t, Time>> steps; // when steps before `complete` ended, of those not yet taken
  };
  /// What has been measured since the last time. `complete`: all steps before it are.
  Taken take(int64_t complete);

private:
  /// Of a link, or of the rank's operations: ascending by time, one for each piece of it.
  struct Track {
    static constexpr size_t kMost = 32;
    Time piece = Time(1) << 24; // 17 us
    std::vector<adapt::Sample> samples;
    void add(const adapt::Sample &sample);
    void append(const adapt::Sample &sample);
  };
  void add(int32_t from, int32_t to, const adapt::Tally &tally, Time end);

  const int32_t rank;
  const int32_t process;
  std::mutex mutex; // over all that follows
  Time pauses = 0;
  std::map<std::pair<int32_t, int32_t>, Track> tracks;
  std::deque<std::pair<int64_t, Time>> steps;
};

} // namespace pipec::runtime
