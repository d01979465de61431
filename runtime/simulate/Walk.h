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
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <vector>

namespace pipec::simulate {

/// Bytes, at most the largest value that Bytes holds.
inline plan::Bytes saturated(__int128 bytes) {
  return plan::Bytes(std::min<__int128>(bytes, std::numeric_limits<plan::Bytes>::max()));
}

class Walk {
public:
  Walk(const plan::Variant &variant, const Options &options);

  /// Lets every queue run until it has finished `steps` steps in all. The status holds the cycle if it stops before.
  /// `open`: more steps will follow. Where a rank's compute queue has come to its end, its updates wait for them, as
  /// the next step's passes may go first; only the steps before the last are complete then on every queue.
  Status advance(int64_t steps, bool open = false);
  /// Whether some device is shared across steps: by updates, which the next step's forwards wait for.
  bool crossesSteps() const { return crosses; }

  /// A hash of every completion of a step, relative to the step's reference time; steps that repeat have equal hashes.
  /// Valid for the last two steps that all queues have finished.
  uint64_t signature(int64_t step) const;
  /// The reference time of a step: the last end of rank 0.
  plan::Time reference(int64_t step) const { return result.ranks.front().lastEnd[size_t(step)]; }

  /// Fills in RankResult::over, once all steps are finished.
  void conclude();

  bool isTooLong() const { return tooLong; }

  Result result;

private:
  static constexpr uint32_t kNone = ~uint32_t(0);
  // Steps whose completion times are kept. A queue may be one step ahead of another of its rank, whose waits may look
  // one step back, so three are needed; four is a power of two.
  static constexpr size_t kKept = 4;
  static constexpr plan::Time kLatest = 6 * limits::kTime;

  /// An operation with what running it takes.
  struct Work {
    const plan::Operation *operation = nullptr;
    plan::Time cost = 0, latency = 0;
    uint32_t link = 0; // of a transfer; of an all-reduce, in Walk::collectives
    plan::Kind kind = plan::Kind::Forward;
    enum class InPair : uint8_t { No, First, Second } inPair = InPair::No; // an F and a backward behind their header
  };
  /// An instruction, in the order of its queue. Ranks are many and their programs together larger than a cache: entries
  /// and waits are small, so that a visit to a rank touches few lines of memory.
  struct Entry {
    uint32_t instruction = 0;          // in its program
    uint32_t work = 0;                 // in Walk::works
    uint32_t firstWait = 0, waits = 0; // in Walk::waits
  };
  struct Wait {
    int64_t base = 0;
    int32_t stride = 0;  // within the step's instructions
    uint32_t queue : 31; // in Walk::queues
    uint32_t previousStep : 1;
  };
  /// A segment as a queue sees it: entries[first, last), `trips` times.
  struct Loop {
    uint32_t first = 0, last = 0;
    int64_t trips = 0;
    int64_t issued = 0;  // of all queues before its first trip, less the segment's first instruction
    int64_t perTrip = 0; // of all queues
    int64_t ends = 0;    // likewise `issued`, of ends alone
    int64_t endsPerTrip = 0;
  };
  /// A queue whose head waits until another has done `count` instructions of `step`.
  struct Waiter {
    uint32_t queue = 0;
    int64_t step = 0, count = 0;
  };
  /// What a visit touches stands in the first two cache lines, since visits go all over the queues.
  struct alignas(64) QueueState {
    // Where it stands.
    uint32_t at = 0;              // entry
    uint32_t first = 0, last = 0; // of its loop
    uint32_t loop = 0;
    int64_t trip = 0, trips = 0;
    int64_t step = 0, done = 0; // completions of the current step
    int64_t perStep = 0;
    plan::Time free = 0;
    // Its second line.
    std::array<std::unique_ptr<plan::Time[]>, kKept> completed; // of step k in order: completed[k % kKept]
    std::vector<Waiter> waiters;                                // for this one
    plan::Time ready = 0;                                       // while posted: since when
    plan::Time pairEnd = 0;                                     // of the overlapped pair that has begun
    int32_t rank = 0;
    // While the head is a transfer that waits for its other side, or waits for its turn on a shared device.
    bool posted = false;
    bool shares = false; // its device, with another queue
    // Elsewhere.
    uint32_t index = 0;                  // in Program::queues
    uint32_t firstLoop = 0, endLoop = 0; // in Walk::loops
  };
  struct Side {
    bool posted = false;
    plan::Time ready = 0;
    uint32_t queue = kNone; // whose instructions of this link are here
  };
  /// The device of a rank with more than one device queue.
  struct Device {
    plan::Time free = 0;
    std::vector<uint32_t> queues; // by priority
  };
  /// The next start on a shared device, as known when it was noted.
  struct Turn {
    plan::Time start;
    int urgency;
    size_t rank;
    auto operator<=>(const Turn &) const = default;
  };
  /// An all-reduce: starts when the last of its ranks has come to it.
  struct Collective {
    size_t ranks = 0;             // that take part
    std::vector<uint32_t> queues; // one a rank that has it
    size_t count = 0;             // posted
    plan::Time ready = 0;         // of the latest
  };
  /// The ends of a rank, in the order of issue: those before `next` of the step have started.
  struct Launched {
    int64_t step = 0, next = 0;
    int64_t perStep = 0;
    plan::Time last = 0;                       // when the last of them did
    std::array<plan::Time, kKept> lastOf = {}; // of step k in all: lastOf[k % kKept]
    std::vector<uint32_t> waiting;             // queues with an end at their heads that must wait for an earlier one
  };
  struct Link {
    Side send, recv;
    plan::Time free = 0;
  };

  void build(size_t rank);
  const Entry &head(const QueueState &queue) const { return entries[queue.at]; }
  const Work &workOf(const Entry &entry) const { return works[entry.work]; }
  const plan::Instruction &instructionOf(const QueueState &queue) const {
    return variant.programs[size_t(queue.rank)].instructions[head(queue).instruction];
  }
  const plan::Time *completions(const QueueState &queue, int64_t step) const {
    return queue.completed[size_t(step) % kKept].get();
  }
  /// How many instructions of the rank are issued before the head in the step.
  int64_t indexOf(const QueueState &queue) const;
  static bool hasDone(const QueueState &queue, int64_t step, int64_t count) {
    return queue.step > step || (queue.step == step && queue.done >= count);
  }
  bool finished(const QueueState &queue) const { return queue.step == target || queue.perStep == 0; }
  void enter(QueueState &queue, uint32_t loop) const;
  /// Whether a step may begin: what a queue of the rank two steps behind may still ask for must not be overwritten.
  bool mayBegin(uint32_t queue);
  void run(uint32_t queue);
  bool ready(uint32_t queue, plan::Time &when);
  void join(uint32_t queue, plan::Time when);
  int64_t endOf(const QueueState &queue) const;
  bool launch(uint32_t queue, plan::Time &when);
  void complete(uint32_t queue, plan::Time start, plan::Time freeAt, plan::Time completedAt);
  plan::Time compute(uint32_t queue, plan::Time start);
  std::optional<Turn> nextTurn(size_t rank, uint32_t &queue) const;
  void noteTurn(size_t rank);
  void takeTurn();
  plan::Time computeEnd(const Work &work, int32_t rank, plan::Time start) const;
  void wake(QueueState &queue);
  void count(const QueueState &queue, const Work &work, plan::Time start, plan::Time end);
  void bracket(const QueueState &queue, plan::Time start, plan::Time end);
  Status stopped() const;
  uint32_t queueOfEnd(size_t rank, int64_t n) const;

  const plan::Variant &variant;
  const Options &options;
  int64_t target = 0;
  bool tooLong = false, crosses = false, open = false;
  const bool inOrder; // ends start in the order of issue
  /// A transfer that a cut link has swallowed.
  struct {
    bool any = false;
    int32_t from = 0, to = 0;
  } lost;
  std::vector<QueueState> queues;
  std::vector<Work> works;    // of a rank's operations, one rank after the other
  std::vector<Entry> entries; // of one queue after the other
  std::vector<Wait> waits;
  std::vector<Loop> loops;
  std::vector<uint32_t> firstQueue; // of a rank, in queues; and the end
  std::vector<Link> links;
  std::vector<Launched> launched;   // by rank; of none where ends start in any order
  std::vector<uint32_t> endsBefore; // by entry: ends of its segment and trip before it
  std::vector<Collective> collectives;
  std::map<int32_t, uint32_t> collectiveOf; // by group; -1: of all
  bool stands(uint32_t queue, uint32_t collective) const;
  std::map<std::array<int32_t, 4>, uint32_t> linkIndex;
  std::vector<__int128> live; // of a rank, first step: many sizes within the limits may pass 2^63
  std::vector<uint32_t> pending;
  std::vector<Device> devices; // of a rank; without queues where its device is not shared
  std::priority_queue<Turn, std::vector<Turn>, std::greater<>> turns;
  std::vector<size_t> held; // ranks whose devices wait for the next step
};

} // namespace pipec::simulate
