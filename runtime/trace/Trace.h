// The trace file: Chrome's JSON trace events, which Perfetto opens. Real and simulated runs write the same, so
// prediction and fact overlay (design, section 6): process = rank, thread = queue, a complete event for each
// instruction with args {step, stage, kind, microbatch, epoch} (transfers also `of`: F or B, what ran after a restart
// also `attempt`), flows for transfers, a counter for live bytes; where the run adapts, an instant event (cat
// `decision`) with args {step, from, to, policy, why} for each decision.
#pragma once

#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace pipec::trace {

/// One executed instruction. Times in picoseconds since the run's start. Both passes of an overlapped pair begin when
/// the pair does; the pair's header has no event.
struct Event {
  int32_t rank = 0;
  uint32_t queue = 0;
  plan::Kind kind = plan::Kind::Forward;
  plan::Payload of = plan::Payload::None;
  int32_t stage = 0;
  int32_t peer = -1;
  int64_t microbatch = 0;
  int64_t step = 0;
  int64_t epoch = 0;
  plan::Time start = 0;
  plan::Time end = 0;
  plan::Bytes taken = 0, freed = 0; // of activations and contexts: at its start, and at its end
  int32_t attempt = 0;              // how often the run had been restarted before
};

/// That another variant or plan runs from a step on, and why. On the clock of the events.
struct Decision {
  plan::Time at = 0;
  int64_t step = 0;     // the first under it
  std::string from, to; // names of candidates
  std::string policy, why;
  bool operator==(const Decision &) const = default;
};

/// What a trace holds.
struct Run {
  std::vector<Event> events;
  std::vector<Decision> decisions;
};

/// A rank's queues by name, as plan::queueNames gives them.
struct Rank {
  int32_t rank = 0;
  std::vector<std::string> queues;
};

std::vector<Rank> describe(const plan::Variant &variant);

/// The whole trace as JSON text. Slices of one queue that overlap go to further tracks (Tracks.h).
std::string toJson(const std::vector<Rank> &ranks, const std::vector<Event> &events,
                   const std::vector<Decision> &decisions = {});

/// The same for events of one variant, from which the names of queues and the bytes held are taken.
std::string toJson(const plan::Variant &variant, std::vector<Event> events);

/// Writes atomically (a temporary file beside it, then rename); on failure nothing stays behind.
Status write(const std::string &path, const std::string &json);

} // namespace pipec::trace
