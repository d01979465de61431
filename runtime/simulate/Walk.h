// The walk itself: every queue of every rank as a cursor, advanced whenever what its head waits for is known. Times are
// longest paths, so the order in which the walk visits queues changes nothing. Internal to runtime/simulate.
#pragma once

#include "runtime/plan/Limits.h"
#include "runtime/simulate/Simulate.h"

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <limits>
#include <optional>
#include <queue>
#include <string>
#include <vector>

namespace pipec::simulate {

/// What no counter of bytes holds is as much as one does.
inline plan::Bytes saturated(__int128 bytes) {
  return plan::Bytes(std::min<__int128>(bytes, std::numeric_limits<plan::Bytes>::max()));
}

class Walk {
public:
  Walk(const plan::Variant &variant, const Options &options);

  /// Lets every queue run until it has finished `steps` steps in all. The status holds the cycle if it stops before.
  Status advance(int64_t steps);

  /// A hash of every completion of a step, relative to the step's reference time; steps that repeat have equal hashes.
  /// Valid for the last two steps that all queues have finished.
  uint64_t signature(int64_t step) const;
  /// The reference time of a step: the last end of rank 0.
  plan::Time reference(int64_t step) const { return result.ranks.front().lastEnd[size_t(step)]; }

  Result result;

private:
  static constexpr size_t kNone = ~size_t(0);
  // A queue may be one step ahead of another of its rank, whose waits may look one step back.
  static constexpr int64_t kKept = 3;
  static constexpr plan::Time kLatest = 6 * limits::kTime;

  struct QueueState {
    int32_t rank = 0;
    uint32_t index = 0; // in Program::queues
    // The queue's own instructions, by segment: instructions[segmentStart[s], segmentStart[s + 1]).
    std::vector<uint32_t> instructions;
    std::vector<uint32_t> segmentStart;
    int64_t perStep = 0;
    // Where it stands.
    int64_t step = 0;
    size_t segment = 0;
    uint32_t at = 0;
    int64_t trip = 0;
    int64_t done = 0; // completions of the current step
    plan::Time free = 0;
    std::array<std::vector<plan::Time>, kKept> completed; // of step k: completed[k % kKept], in order
    std::vector<size_t> waiters;                          // queues whose head waits for this one
    // While the head is a transfer that waits for its other side, or waits for its turn on a shared device.
    bool posted = false;
    plan::Time ready = 0; // then: since when
  };
  struct Side {
    bool posted = false;
    plan::Time ready = 0;
    size_t queue = kNone; // whose instructions of this link are here
  };
  /// The device of a rank with more than one device queue.
  struct Device {
    plan::Time free = 0;
    std::vector<size_t> queues; // by priority
  };
  /// The next start on a shared device, as known when it was noted.
  struct Turn {
    plan::Time start;
    plan::Priority priority;
    size_t rank;
    auto operator<=>(const Turn &) const = default;
  };
  struct Link {
    Side send, recv;
    plan::Time free = 0;
  };

  const plan::Instruction &head(const QueueState &queue) const;
  /// How many instructions of the rank are issued before the head in the step.
  int64_t indexOf(const QueueState &queue) const;
  bool finished(const QueueState &queue) const { return queue.step == target || queue.perStep == 0; }
  void rewind(QueueState &queue) const;
  void run(size_t queue);
  bool ready(size_t queue, plan::Time &when);
  void complete(size_t queue, plan::Time start, plan::Time freeAt, plan::Time completedAt);
  std::optional<Turn> nextTurn(size_t rank, size_t &queue) const;
  void noteTurn(size_t rank);
  void takeTurn();
  plan::Time computeEnd(const plan::Operation &operation, size_t rank, plan::Time start) const;
  void wake(QueueState &queue);
  void count(const QueueState &queue, const plan::Operation &operation, plan::Time start, plan::Time end);
  Status stopped() const;

  const plan::Variant &variant;
  const Options &options;
  int64_t target = 0;
  bool tooLong = false;
  /// A transfer that a cut link has swallowed.
  struct {
    bool any = false;
    int32_t from = 0, to = 0;
  } lost;
  std::vector<QueueState> queues;
  std::vector<size_t> firstQueue;                 // of a rank, in queues
  std::vector<std::vector<int64_t>> issuedBefore; // of a rank and segment
  std::vector<std::vector<uint32_t>> linkOf;      // of a rank's operation
  std::vector<Link> links;
  std::vector<__int128> live; // of a rank, first step: many sizes within the limits may pass 2^63
  std::vector<size_t> pending;
  std::vector<Device> devices; // of a rank; without queues where its device is not shared
  std::priority_queue<Turn, std::vector<Turn>, std::greater<>> turns;
};

} // namespace pipec::simulate
