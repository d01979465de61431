// Simulates a plan in virtual time (design, section 5). One walk finds makespan, span, busy time and peak memory, or
// the cycle of a deadlock. A plan has no choices, so one run that ends proves that every run ends: this walk is also
// the proof that a plan has no deadlock.
//
// Semantics. A compute instruction starts when it is at the head of its queue and its waits are met, and holds the
// queue for its cost. A transfer starts when its send and its receive are both at the heads of their queues with their
// waits met and its link (one per directed pair of ranks) is free. It holds both queues and the link for its cost. Then
// the send completes and the queues go on; the receive completes a latency later. Completions count in queue order. The
// two passes after the header of an overlapped pair start with the header and end together, the header's cost later.
// Steps follow each other without a barrier: each queue goes on with the next step.
//
// With shards, each shard is a process, at rank * shards + shard (its *place*). All shards of a rank run its program
// with their own times; shard i's transfers go to shard i, and a norm is over all processes. An instruction with sums
// holds its queue from its start to its end: it takes its own time until the first sum, waits until all shards of its
// rank have come so far in the same instruction, and then takes the operation's cost and its own time after the last
// sum. A scenario changes own times. It changes `cost` by as much as it changes the longest time between sums.
//
// Pieces of jobs run only with Options::pieces. Before an instruction with a window starts, a *resume*, pieces run back
// to back from when the device is free. A piece begins if the instruction cannot start yet and the rest of the window
// has room for the piece. The instruction starts once it can and the last piece has ended. No piece runs before a
// process's first instruction of a run.
#pragma once

#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"
#include "runtime/simulate/Scenario.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

namespace pipec::simulate {

/// One executed instruction. Send: end is when its link is free. Recv: start is the start of the transfer, end is the
/// data's arrival.
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
  plan::Time counted = 0; // when its queue counts it as complete: not before all earlier instructions
  plan::Time free = 0;    // when its queue goes on; Recv: when the link is free
  plan::Time own = 0;     // time that it computes: all but sums and waiting for other shards
  plan::Time waited = 0;  // time that it waits in sums for other shards
  plan::Time came = 0;    // with sums between shards: when it came to the first of them; else its end
  plan::Time met = 0;     // with sums: when the last shard of its rank came to the first; else its end
};

/// A resume: an instruction with a window.
struct Resume {
  int32_t place = 0;
  int64_t step = 0;
  int64_t index = 0;     // as in Event
  plan::Time free = 0;   // from when pieces may begin: its device is free, and its window has begun
  plan::Time ready = 0;  // when it could start
  plan::Time window = 0; // length of its window in the plan
  plan::Time piece = 0;  // duration of a piece, with its overhead

  /// How many pieces begin before it.
  int64_t pieces() const { return ready <= free ? 0 : std::min((ready - free + piece - 1) / piece, window / piece); }
};

/// When an *end* may start: a send, a receive, or a rank's part of an all-reduce that is at the head of its queue with
/// its waits met. InAnyOrder: at once. InOrder: once every end that its rank issued earlier has started, whether or not
/// its peer has. NCCL does the latter with several communicators on a GPU (2.26 and newer, under
/// NCCL_LAUNCH_ORDER_IMPLICIT=1). A transfer starts when both its ends have started.
enum class Launch : uint8_t { AsPlanned, InAnyOrder, InOrder };
inline bool startsInOrder(const plan::Variant &variant, Launch launch) {
  return launch == Launch::AsPlanned ? variant.launchOrder : launch == Launch::InOrder;
}

struct Options {
  int64_t steps = 1;
  Launch launch = Launch::AsPlanned; // AsPlanned: that of the variant
  /// Ends early once a step repeats the one before it, as all later steps would too.
  bool untilRepeats = false;
  /// Links and transfer queues are never busy: each transfer takes its cost and latency from the moment both sides are
  /// ready.
  bool idealLinks = false;
  /// The network and the slow ranks, in place of what the plan says; must outlive the call. A link that the scenario
  /// cuts stops the run (Code::Check).
  const Scenario *scenario = nullptr;
  /// By process: when it begins, after running another program; empty: all at 0.
  std::vector<plan::Time> starts = {};
  /// Called for each executed instruction, in the order of each queue (not of time).
  std::function<void(const Event &)> observe;
  /// Whether pieces of jobs run.
  bool pieces = false;
  /// In place of pieces: returns when an instruction with a window starts, no sooner than it could.
  std::function<plan::Time(const Resume &)> resume = {};
  /// Called for each resume with pieces before it, and their number.
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

/// The result of a process; without shards, of a rank.
struct PlaceResult {
  std::vector<plan::Time> firstStart; // of each step, on a device queue
  std::vector<plan::Time> lastEnd;    // of each step, on a device queue
  plan::Time exchanged = 0;           // when its last collective with replicas of the first step is complete
  plan::Time over = 0;                // when its last instruction of all is complete, on any queue
  plan::Time busy = 0;                // F, B, W and optimizer time of one step; with shards, own time
  plan::Bytes peakActivation = 0;     // peak of live activations and contexts; with a weights queue, in any timing
  plan::Bytes peak = 0;               // peakActivation + rings + workspace + static + its job's memory
  int64_t peakIndex = 0;              // Event::index of the instruction that first reaches the peak
  std::vector<Visit> visits;          // in the order of the walk: each comes after what it depends on
  /// By step, then by Event::index: when each instruction starts and ends.
  std::vector<std::vector<std::pair<plan::Time, plan::Time>>> times;
};

struct Result {
  std::vector<PlaceResult> places; // at rank * shards + shard
  plan::Time makespan = 0;         // of the first step
  bool repeats = false;            // Options::untilRepeats: the last step repeats the one before it
  bool overtaken = false;          // Options::keepTimes: some instruction ends before its queue counts it
};

/// Adds to the peaks of a result the memory of jobs that the variant got after the walk.
void addJobMemory(const plan::Variant &variant, Result &result);

/// Simulates `options.steps` steps of a variant, or fewer (untilRepeats); `lastEnd` has one element per step. If the
/// program deadlocks, the status (Code::Check) has the cycle: one line per instruction, each waiting for the next.
Status simulate(const plan::Variant &variant, const Options &options, Result &result);

/// Proves for a variant with a certificate that one step ends (P36), that its makespan is the certificate's (P37), and,
/// with jobs, that the certificate's delay holds (P56).
Status prove(const plan::Variant &variant, Result &result);

/// The time per step when steps follow each other. Simulates until the steps repeat (every completion of a step is
/// later than c steps before by the same amount), and rounds the mean up. `result` also has the simulated steps.
/// Code::Input if a step takes longer than limits::kTime, though nothing is wrong with the order. Only the options
/// `keepVisits` and `launch` are used.
Status span(const plan::Variant &variant, plan::Time &span, Result &result, const Options &options = {});

/// The time of the exchange between a variant's replicas that no computation hides: the certificate's span, less the
/// span if collectives of gradients and weights took no time.
Status exposed(const plan::Variant &variant, plan::Time &time);

/// 1 - busy / (processes * time).
double bubbleRate(const Result &result, plan::Time time);

} // namespace pipec::simulate
