// The trace file: Chrome's JSON trace events, which Perfetto opens. Real and simulated runs write the same, so
// prediction and fact overlay (design, section 6): process = world rank (the rank, where each is one process), thread =
// queue, a complete event for each instruction with args {step, stage, kind, microbatch, epoch} (transfers also `of`: F
// or B, what is about some layers `layers`: [first, count], collectives of them `bytes`, what a replica ran `replica`,
// what a shard ran `shard` and, where it computed, `own_ms` of computing and `wait_ms` of waiting for the other shards,
// what ran after a restart `attempt`), one for each piece of a background job with args {step, kind: job, atoms}, on a
// track of its own, flows for transfers, a counter for live bytes; where the run adapts, an instant event (cat
// `decision`) with args {step, from, to, policy, why} for each decision.
#pragma once

#include "runtime/plan/Place.h"
#include "runtime/plan/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace pipec::trace {

/// The part of its stage that an operation is about: some layers, and for a collective bytes of the stage's gradients
/// or weights, laid end to end.
struct Scope {
  int32_t firstLayer = 0, layers = 0; // 0: all
  plan::Bytes begin = 0, end = 0;
  auto operator<=>(const Scope &) const = default;
};
inline Scope scopeOf(const plan::Operation &o) { return {o.firstLayer, o.layers, o.begin, o.end}; }

/// One executed instruction. Times in picoseconds since the run's start. Both passes of an overlapped pair begin when
/// the pair does; the pair's header has no event.
struct Event {
  int32_t rank = 0; // world rank of the process
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
  plan::Bytes taken = 0, freed = 0; // bytes of activations and contexts taken at its start and freed at its end
  int32_t attempt = 0;              // number of restarts of the run before
  Scope scope = {};
  plan::Time own = 0, waited = 0; // with shards: time computing, and time waiting for the other shards
  int64_t atoms = 0;              // above 0: this is no instruction but a piece of the rank's job, in a step's waits
};

/// A piece of a job, for a process with `queues` queues. Its track follows theirs.
inline Event pieceOf(int32_t rank, size_t queues, int64_t step, plan::Time start, plan::Time end, int64_t atoms) {
  Event piece;
  piece.rank = rank;
  piece.queue = uint32_t(queues);
  piece.step = step;
  piece.start = start;
  piece.end = end;
  piece.atoms = atoms;
  return piece;
}

/// A decision: another variant or plan runs from a step on, and why. Times are on the clock of the events.
struct Decision {
  plan::Time at = 0;
  int64_t step = 0;     // the first step under it
  std::string from, to; // names of candidates
  std::string policy, why;
  bool operator==(const Decision &) const = default;
};

/// What a trace holds.
struct Run {
  std::vector<Event> events; // instructions
  std::vector<Decision> decisions;
  std::vector<Event> pieces = {}; // pieces of jobs
};

/// A process's queues by name, as plan::queueNames gives them.
struct Rank {
  plan::Place place;
  std::vector<std::string> queues;
};

std::vector<Rank> describe(const plan::Variant &variant);

/// The whole trace as JSON text. Slices of one queue that overlap go to further tracks (Tracks.h).
std::string toJson(const std::vector<Rank> &ranks, const std::vector<Event> &events,
                   const std::vector<Decision> &decisions = {});

/// The same for events of one variant, which gives the names of queues and the bytes held.
std::string toJson(const plan::Variant &variant, std::vector<Event> events);

/// Writes a file atomically (a temporary file beside it, then rename). On failure no file is left.
Status write(const std::string &path, const std::string &json);

} // namespace pipec::trace
