// A recorder keeps what a queue did: when each step began and ended on it, how late its work was against its deadlines,
// and, for a trace, when each instruction began and ended. Which instruction that was is looked up only when the trace
// is written.
#pragma once

#include "runtime/device/Stream.h"
#include "runtime/trace/Trace.h"

#include <algorithm>
#include <array>
#include <bit>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

namespace pipec::runtime {

/// How late work ended, counted in buckets 1/16 wide of their size, so that a long run needs no more memory than a
/// short one.
class Lateness {
public:
  static constexpr size_t kBuckets = 61 * 16;

  void add(plan::Time late, int64_t times = 1) {
    uint64_t units = uint64_t(std::max<plan::Time>(late, 0)) / kUnit;
    buckets[bucketOf(units)] += times;
    sum += int64_t(units) * times;
    largest = std::max(largest, late);
  }
  void merge(const Lateness &other);
  int64_t count() const;
  double mean() const; // all in picoseconds
  plan::Time max() const { return largest; }
  /// The lateness that the fraction `part` of all work did not exceed: 0.5 is the median. 0 if there was no work.
  double quantile(double part) const;

  /// For sending: sum, largest, then the buckets up to the last filled one.
  std::vector<int64_t> pack() const;
  static Lateness unpack(const std::vector<int64_t> &packed);

private:
  static constexpr plan::Time kUnit = 1024; // picoseconds: a power of two, since this is done for each instruction

  // Below 16 each unit has its bucket; above, each power of two has 16.
  static size_t bucketOf(uint64_t units) {
    if (units < 16)
      return size_t(units);
    unsigned shift = unsigned(std::bit_width(units)) - 5; // at most 48
    return (shift + 1) * 16 + ((units >> shift) - 16);
  }

  std::array<int64_t, kBuckets> buckets{};
  int64_t sum = 0; // units
  plan::Time largest = 0;
};

/// A rank's step on device queues: what the simulator's PlaceResult holds.
struct StepTimes {
  plan::Time firstStart = INT64_MAX;
  plan::Time lastEnd = INT64_MIN;
};

/// The time that a shard computed in a step, and the plan's time for this on a healthy device.
struct OwnTimes {
  plan::Time own = 0;
  plan::Time planned = 0;
};

/// Written by the thread that runs the queue, read after the run.
class Recorder {
public:
  plan::Place place;
  QueueId queue = 0;
  bool device = false; // a device queue: its work counts in `steps`
  bool trace = false;
  std::vector<StepTimes> steps;
  std::vector<OwnTimes> own; // by step, with shards
  Lateness lateness;

  /// Says which instructions are recorded next: the step's instructions on this queue, in order. Rounds of an
  /// evaluation count in `lateness` alone.
  void begin(const std::shared_ptr<const Round> &round, const Stream &stream);

  /// `due`: when the work should have started, so that lateness at the start of a run counts. `end`: when it really
  /// ended. `late`: real end less deadline. `count`: the number of instructions since the last record, which this
  /// record stands for.
  void record(plan::Time due, plan::Time end, plan::Time late, int64_t count = 1) {
    first = std::min(first, due);
    last = std::max(last, end);
    lateness.add(late, count);
  }
  /// For the trace: when each instruction really started and ended.
  void log(plan::Time start, plan::Time end) {
    if (trace)
      times.add({start, end});
  }
  /// For the trace: a piece of the rank's job in the waits of a step, on a track after those of `queues` queues.
  void logPiece(int64_t ofStep, plan::Time start, plan::Time end, int64_t atoms, size_t queues);
  /// For each instruction of a shard, before log().
  void computed(plan::Time took, plan::Time waited, plan::Time planned) {
    if (step >= 0) {
      if (own.size() <= size_t(step))
        own.resize(size_t(step) + 1);
      own[size_t(step)].own += took;
      own[size_t(step)].planned += planned;
    }
    if (trace)
      parts.emplace_back(took, waited);
  }
  /// Brings `steps` up to date.
  void settle();

  std::vector<trace::Event> events() const;
  /// Forgets all events. To call while the queue has nothing to run.
  void clearEvents();

private:
  struct Times {
    plan::Time start;
    plan::Time end;
  };
  /// Grows without moving its entries: a small block, then large blocks, on large pages if there are any, since
  /// clearing pages one by one costs more than writing to them.
  class Log {
  public:
    void add(const Times &times) {
      if (place == end)
        grow();
      *place++ = times;
    }
    size_t size() const { return room - size_t(end - place); }
    const Times &operator[](size_t n) const {
      return n < kFirst ? blocks[0][n] : blocks[1 + (n - kFirst) / kBlock][(n - kFirst) % kBlock];
    }

  private:
    static constexpr size_t kFirst = 4096;
    static constexpr size_t kBlock = (size_t(2) << 20) / sizeof(Times);
    void grow();

    std::vector<std::shared_ptr<Times[]>> blocks; // shared by copies, which only read
    size_t room = 0;                              // of all blocks
    Times *place = nullptr, *end = nullptr;       // in the last block
  };
  /// A stretch of the log: its instructions follow from their stream.
  struct Stretch {
    size_t first;
    std::shared_ptr<const Round> round;
    const Stream *stream;
  };
  trace::Event eventOf(const Round &round, const Walk &walk, size_t number) const;

  int64_t step = -1; // the step of `first` and `last`; -1: no step
  plan::Time first = INT64_MAX, last = INT64_MIN;
  Log times;
  std::deque<std::pair<plan::Time, plan::Time>>
      parts; // with shards, beside `times`: time computing, and time waiting for other shards
  std::vector<Stretch> stretches;
  std::vector<trace::Event> pieces;
};

} // namespace pipec::runtime
