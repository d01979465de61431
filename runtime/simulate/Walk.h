// Walk is the simulation itself: a cursor for every queue of every process, advanced whenever everything that its head
// waits for is known. Times are longest paths, so the order in which the walk visits queues changes nothing. Internal
// to runtime/simulate.
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

  /// Lets every queue run until it has finished `steps` steps in all. If the walk stops before, the status has the
  /// cycle. `open`: more steps will follow. Then the updates of a rank whose compute queue has ended wait for these
  /// steps, as the next step's passes may go first, and only the steps before the last are complete on every queue.
  Status advance(int64_t steps, bool open = false);

  /// A hash of every completion of a step, relative to the step's reference time; steps that repeat have equal hashes.
  /// Valid for the last two steps that all queues have finished.
  uint64_t signature(int64_t step) const;
  /// The reference time of a step: the last end of the first process.
  plan::Time reference(int64_t step) const { return result.places.front().lastEnd[size_t(step)]; }

  /// Fills in PlaceResult::over, once all steps are finished.
  void conclude();

  bool isTooLong() const { return tooLong; }

  Result result;

private:
  static constexpr uint32_t kNone = ~uint32_t(0);
  static constexpr uint32_t kSums = kNone - 1; // in place of a link
  // Steps whose completion times are kept. A queue may be one step ahead of another of its rank, whose waits may look
  // one step back, so three are needed; four is a power of two.
  static constexpr size_t kKept = 4;
  static constexpr plan::Time kLatest = 6 * limits::kTime;

  /// An operation, with its times on one process.
  struct Work {
    const plan::Operation *operation = nullptr;
    plan::Time cost = 0;    // with sums: its own time before the first
    plan::Time latency = 0; // with sums: its own time behind the last
    uint32_t link = kNone;  // of a transfer; of a collective, in Walk::collectives; of a pass with sums, kSums
    plan::Kind kind = plan::Kind::Forward;
    enum class InPair : uint8_t { No, First, Second } inPair = InPair::No; // an F and a backward behind their header
  };
  /// An instruction, in the order of its queue. The programs of all processes are larger than a cache: entries and
  /// waits are small, so that a visit touches few cache lines.
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
    int64_t issued = 0; // instructions of all queues issued before its first trip, less the segment's first instruction
    int64_t perTrip = 0; // instructions of all queues per trip
    int64_t ends = 0;    // as `issued`, of ends alone
    int64_t endsPerTrip = 0;
  };
  /// A queue whose head waits until another has done `count` instructions of `step`.
  struct Waiter {
    uint32_t queue = 0;
    int64_t step = 0, count = 0;
  };
  /// The first two cache lines hold what a visit touches, since visits jump between queues.
  struct alignas(64) QueueState {
    // The position.
    uint32_t at = 0;              // entry
    uint32_t first = 0, last = 0; // of its loop
    uint32_t loop = 0;
    int64_t trip = 0, trips = 0;
    int64_t step = 0, done = 0; // completions of the current step
    int64_t perStep = 0;
    plan::Time free = 0;
    // The second cache line.
    std::array<std::unique_ptr<plan::Time[]>, kKept> completed; // of step k in order: completed[k % kKept]
    std::vector<Waiter> waiters;                                // queues that wait for this one
    plan::Time ready = 0;                                       // while posted: from when it could start
    plan::Time pairEnd = 0; // end of the pair that has begun; while posted with sums: when it came to the first
    int32_t place = 0;
    // Whether the head is a transfer that waits for its other side, or waits for its turn on a shared device, or for
    // the other shards in a sum.
    bool posted = false;
    bool shares = false; // another queue has the same device
    // Elsewhere.
    uint32_t index = 0;                  // in Program::queues
    uint32_t firstLoop = 0, endLoop = 0; // in Walk::loops
  };
  struct Side {
    bool posted = false;
    plan::Time ready = 0;
    uint32_t queue = kNone; // the queue with the instructions of this side
  };
  /// The device of a process with more than one device queue.
  struct Device {
    plan::Time free = 0;
    std::vector<uint32_t> queues; // by priority
  };
  /// The next start on a shared resource, as known when it was noted: on a device, or, if ports are shared, of a
  /// transfer or a collective with all its ends.
  struct Turn {
    enum class Of : uint8_t { Device, Link, Collective };
    plan::Time start;
    int urgency;
    Of of;
    size_t number; // of the place, link or collective
    auto operator<=>(const Turn &) const = default;
  };
  /// The port of a process, on which its transfers and collectives take turns. A transfer holds the sender's outward
  /// port and the receiver's inward port, a collective both ports of its ranks. A collective does not begin while a
  /// transfer waits.
  struct Port {
    plan::Time outward = 0, inward = 0;  // when they are free
    std::vector<uint32_t> waiting;       // links with a transfer that has both its ends
    std::vector<uint32_t> yielding = {}; // collectives that wait for such a transfer
  };
  /// A collective, such as an all-reduce. It starts when its last member has come.
  struct Collective {
    size_t members = 0;           // that take part
    std::vector<uint32_t> queues; // the queue of each member that has the collective
    size_t count = 0;             // members that have come
    plan::Time ready = 0;         // when the last of them came
  };
  /// The sums of an instruction on one of a rank's queues: how far its shards have come.
  struct Sum {
    int32_t count = 0;    // shards that have come
    plan::Time ready = 0; // when the last of them came
  };
  /// When an instruction with sums came to the first of them, and when the last shard of its rank did. Of its duration,
  /// the time that it computes and the time that it waits.
  struct Met {
    plan::Time came, met, own, waited;
  };
  /// The ends of a process, in the order of issue: those before `next` of the step have started.
  struct Launched {
    int64_t step = 0, next = 0;
    int64_t perStep = 0;
    plan::Time last = 0;                       // when the last of them started
    std::array<plan::Time, kKept> lastOf = {}; // of step k: lastOf[k % kKept]
    std::vector<uint32_t> waiting;             // queues with an end at their heads that must wait for an earlier one
  };
  struct Link {
    Side send, recv;
    plan::Time free = 0;
  };

  void build(size_t place);
  void setOwn(Work &work, size_t place) const;
  const plan::Program &programOf(size_t place) const { return variant.programs[place / size_t(shards)]; }
  int32_t rankOf(const QueueState &queue) const { return queue.place / shards; }
  const Entry &head(const QueueState &queue) const { return entries[queue.at]; }
  const Work &workOf(const Entry &entry) const { return works[entry.work]; }
  const plan::Instruction &instructionOf(const QueueState &queue) const {
    return programOf(size_t(queue.place)).instructions[head(queue).instruction];
  }
  const plan::Time *completions(const QueueState &queue, int64_t step) const {
    return queue.completed[size_t(step) % kKept].get();
  }
  /// How many instructions of its program are issued before the head in the step.
  int64_t indexOf(const QueueState &queue) const;
  static bool hasDone(const QueueState &queue, int64_t step, int64_t count) {
    return queue.step > step || (queue.step == step && queue.done >= count);
  }
  bool finished(const QueueState &queue) const { return queue.step == target || queue.perStep == 0; }
  void enter(QueueState &queue, uint32_t loop) const;
  /// Whether a step may begin: what a queue of the process two steps behind may still ask for must not be overwritten.
  bool mayBegin(uint32_t queue);
  void run(uint32_t queue);
  bool ready(uint32_t queue, plan::Time &when);
  void join(uint32_t queue, plan::Time when);
  int64_t endOf(const QueueState &queue) const;
  bool launch(uint32_t queue, plan::Time &when);
  plan::Time resume(const QueueState &queue, plan::Time ready);
  void complete(uint32_t queue, plan::Time start, plan::Time freeAt, plan::Time completedAt, const Met *met = nullptr);
  plan::Time compute(uint32_t queue, plan::Time start);
  std::optional<Turn> nextTurn(size_t place, uint32_t &queue) const;
  void noteTurn(size_t place);
  void takeTurn();
  void takeDevice(const Turn &noted);
  // Of transfers and collectives that have all their ends: WalkPorts.cpp where they share ports.
  plan::Time startOf(const Link &link) const;
  void cross(uint32_t link, plan::Time start);
  void meet(Collective &collective, plan::Time start);
  void noteLink(uint32_t link);
  void noteCollective(uint32_t collective);
  void takeLink(const Turn &noted);
  void takeCollective(const Turn &noted);
  bool yields(uint32_t collective, plan::Time start);
  plan::Time ownEnd(const QueueState &queue, plan::Time start, plan::Time time) const;
  // Of sums between shards: WalkSums.cpp.
  void come(uint32_t queue, plan::Time when);
  void meetShards(uint32_t first, const Sum &sum);
  void wake(QueueState &queue);
  void count(const QueueState &queue, const Work &work, plan::Time own);
  void bracket(const QueueState &queue, plan::Time start, plan::Time end);
  Status stopped() const;
  uint32_t queueOfEnd(size_t place, int64_t n) const;

  const plan::Variant &variant;
  const Options &options;
  int64_t target = 0;
  bool tooLong = false, open = false;
  const bool inOrder; // ends start in the order of issue
  const int32_t shards;
  /// The transfer that was lost on a cut link.
  struct {
    bool any = false;
    int32_t from = 0, to = 0;
  } lost;
  std::vector<QueueState> queues;
  std::vector<Work> works;    // of a process's operations, one process after the other
  std::vector<Entry> entries; // of one queue after the other
  std::vector<Wait> waits;
  std::vector<Loop> loops;
  std::vector<uint32_t> firstQueue; // by place: its first index in `queues`; then the end
  std::vector<Link> links;
  std::vector<Launched> launched;    // by place; empty if ends start in any order
  std::vector<uint32_t> endsBefore;  // by entry: ends of its segment and trip before it
  std::vector<plan::Window> windows; // by entry; empty if no pieces run
  std::vector<Collective> collectives;
  std::vector<Sum> sums;                    // with shards: by queue of a rank's first shard
  std::map<int32_t, uint32_t> collectiveOf; // by group; -1: of all processes
  bool stands(uint32_t queue, uint32_t collective) const;
  std::map<std::array<int32_t, 4>, uint32_t> linkIndex;
  std::vector<__int128> live; // by place, in the first step; sums of sizes may pass 2^63
  std::vector<uint32_t> pending;
  std::vector<Device> devices; // by place; no queues if the device is not shared
  std::vector<Port> ports;     // by place; empty if each transfer and collective has a port of its own
  std::priority_queue<Turn, std::vector<Turn>, std::greater<>> turns;
  std::vector<size_t> held; // places whose devices wait for the next step
};

} // namespace pipec::simulate
