// A plan in virtual time (design, section 5): one walk gives makespan, span, busy time and peaks, or the cycle in which
// it stops. Nothing in a plan chooses, so a run that ends proves that every run ends: this walk is also the deadlock
// proof.
//
// Semantics. A compute instruction starts when it is at the head of its queue and its waits are met, and holds the
// queue for its cost. A transfer starts when its send and its receive are both at the heads of their queues with their
// waits met and its link (one a directed pair of ranks) is free; it holds both queues and the link for its cost; the
// send completes then, the receive a latency later, the queues go on meanwhile. Completions count in queue order. The
// two passes behind the header of an overlapped pair start with it and end together, the header's cost later. Steps
// follow each other without a barrier: each queue goes on with the next step.
//
// Where ranks have shards, each is a process, in the order of rank * shards + shard (its *place*). All shards of a rank
// run its program with own times; shard i's transfers go to shard i, and a norm is over all. An instruction with sums
// holds its queue from its start to its end: it takes its own time until the first sum, waits until all shards of its
// rank have come so far in the same instruction, and ends the operation's cost and its own time behind the last sum
// later. A scenario changes own times, and `cost` by what the longest time between sums then takes more or less.
//
// Pieces of jobs run where they are asked for (Options::pieces). At the start of an instruction that has a window, a
// *resume*, they stand end to end from when the device is free: one begins as long as the instruction could not start
// and the rest of its window has room for it. The instruction starts when it can and the last one has ended. None
// stands before a process's first instruction of a run.
#pragma once

#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"
#include "runtime/simulate/Scenario.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

namespace pipec::simulate {

/// One executed instruction. Send: end is when its wire is free; Recv: start is the transfer's, end is the data's
/// arrival.
struct Event {
  int32_t place = 0; // the process: rank * shards + shard
  int32_t rank = 0;
  int32_t shard = 0;
  uint32_t queue = 0;
  const plan::Operation *operation = nullptr;
  int64_t microbatch = 0;
  int64_t step = 0;
  plan::Time start = 0;
  plan::Time end = 0;
  int64_t index = 0;      // how many instructions of its rank are issued before it in the step
  plan::Time counted = 0; // when its queue counts it: no sooner than what stands before it
  plan::Time free = 0;    // when its queue goes on: of a Recv, when the wire is free
  plan::Time own = 0;     // of its time, what it computes: all but sums and waiting for other shards
  plan::Time waited = 0;  // of its time, what it waits in sums for other shards
  plan::Time came = 0;    // with sums between shards: when it has come to the first of them; else its end
  plan::Time met = 0;     // likewise, when the last shard of its rank has
};

/// A resume: an instruction with a window.
struct Resume {
  int32_t place = 0;
  int64_t step = 0;
  int64_t index = 0;     // as in Event
  plan::Time free = 0;   // since when pieces may begin: its device is free, and its window has begun
  plan::Time ready = 0;  // when it could start
  plan::Time window = 0; // of the plan
  plan::Time piece = 0;  // what one takes, its overhead included

  /// How many pieces begin before it.
  int64_t pieces() const { return ready <= free ? 0 : std::min((ready - free + piece - 1) / piece, window / piece); }
};

/// When an *end* may start: a send, a receive, or a rank's part of an all-reduce, whose waits are met and which stands
/// at the head of its queue. In any order: at once. In launch order: once every end that its rank issued before it has
/// started, whether or not its peer has. So NCCL does with several communicators on a GPU (2.26 and newer, under
/// NCCL_LAUNCH_ORDER_IMPLICIT=1). A transfer starts when both its ends have.
enum class Launch : uint8_t { AsPlanned, InAnyOrder, InOrder };
inline bool startsInOrder(const plan::Variant &variant, Launch launch) {
  return launch == Launch::AsPlanned ? variant.launchOrder : launch == Launch::InOrder;
}

struct Options {
  int64_t steps = 1;
  Launch launch = Launch::AsPlanned; // that of the variant, or one in place of it
  /// Ends early, once a step is like the one before it: all that follow would be too.
  bool untilRepeats = false;
  /// Links and transfer queues are never held: each transfer takes its cost and latency from the moment both sides are
  /// ready.
  bool idealLinks = false;
  /// What the network and the ranks are like instead of what the plan says; outlives the call. A link that it cuts
  /// stops the run (Code::Check).
  const Scenario *scenario = nullptr;
  /// Of each process: when it begins, having run another program until then; none: all at 0.
  std::vector<plan::Time> starts = {};
  /// Called for each executed instruction, in the order of each queue (not of time).
  std::function<void(const Event &)> observe;
  /// Whether pieces of jobs run.
  bool pieces = false;
  /// In place of pieces: when an instruction with a window starts, no sooner than it could.
  std::function<plan::Time(const Resume &)> resume = {};
  /// Called for each resume before which pieces run, with how many do.
  std::function<void(const Resume &, int64_t pieces)> observePieces = {};
  /// Fills in PlaceResult::visits.
  bool keepVisits = false;
  /// Fills in PlaceResult::times.
  bool keepTimes = false;
};

/// One executed instruction of a process's first step.
struct Visit {
  plan::Time start = 0, end = 0; // as in Event
  uint32_t index = 0;            // as in Event
};

/// What became of a process; where ranks have no shards, of a rank.
struct PlaceResult {
  std::vector<plan::Time> firstStart; // of each step, on a device queue
  std::vector<plan::Time> lastEnd;    // of each step, on a device queue
  plan::Time exchanged = 0;           // when its last collective with replicas of the first step is complete
  plan::Time over = 0;                // when its last instruction of all is complete, on any queue
  plan::Time busy = 0;                // F, B, W and optimizer time of one step, own time where there are shards
  plan::Bytes peakActivation = 0;     // most of live activations and contexts; with a weights queue, in any timing
  plan::Bytes peak = 0;               // peakActivation + rings + workspace + static + its job's memory
  int64_t peakIndex = 0;              // Event::index of the instruction that first reaches the peak
  std::vector<Visit> visits;          // in the order of the walk: each stands behind what it depends on
  /// Of each step, by Event::index: when each instruction starts and ends.
  std::vector<std::vector<std::pair<plan::Time, plan::Time>>> times;
};

struct Result {
  std::vector<PlaceResult> places; // of rank * shards + shard
  plan::Time makespan = 0;         // of the first step
  bool repeats = false;            // Options::untilRepeats: the last step is like the one before it
  bool overtaken = false;          // Options::keepTimes: some instruction ends before its queue counts it
};

/// Counts in the peaks of a walk the memory of jobs that the variant was given after it.
void addJobMemory(const plan::Variant &variant, Result &result);

/// Runs `options.steps` steps of a variant, or fewer (untilRepeats); `lastEnd` has one element for each. If the program
/// stops, the status (Code::Check) holds the cycle: one line an instruction, each waiting for the next.
Status simulate(const plan::Variant &variant, const Options &options, Result &result);

/// Proves of a variant with a certificate that one step ends (P36), that its makespan is the certificate's (P37), and,
/// with jobs, that what the certificate says of their delay holds (P56).
Status prove(const plan::Variant &variant, Result &result);

/// Time per step when steps follow each other: simulates until the steps repeat (every completion of a step is the same
/// amount later than c steps before), and rounds that mean up. Result also holds the simulated steps. Code::Input where
/// a step takes longer than limits::kTime: nothing is wrong with the order. Of options, `keepVisits` and `launch`
/// count.
Status span(const plan::Variant &variant, plan::Time &span, Result &result, const Options &options = {});

/// What of a variant's exchange between replicas nothing hides: its span, which the certificate has, less that with
/// collectives of gradients and weights that take no time.
Status exposed(const plan::Variant &variant, plan::Time &time);

/// 1 - busy / (processes * time).
double bubbleRate(const Result &result, plan::Time time);

} // namespace pipec::simulate
