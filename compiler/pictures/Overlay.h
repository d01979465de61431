// Matches a real run with a plan: which variant each step of the run executed, and which event of the trace belongs to
// which instruction.
#pragma once

#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"
#include "runtime/trace/Trace.h"

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

namespace pipec::emit {

/// Simulated steps repeat after a few steps; every later step is drawn like this one.
inline constexpr int64_t kSettled = 7;

/// Times of background jobs' pieces, by place: starts and ends, ascending; adjacent pieces count as one.
using Pieces = std::vector<std::vector<std::pair<plan::Time, plan::Time>>>;

struct RunStep {
  int64_t step = 0;
  size_t variant = 0;
  plan::Time begin = 0;                   // first start of an instruction other than a transfer
  plan::Time end = 0;                     // last end of such an instruction
  std::vector<trace::Decision> decisions; // by time, from its begin
  Pieces pieces;                          // from its begin to its end

  /// The event of an instruction; null if the run did not reach it.
  const trace::Event *find(int32_t rank, const plan::Operation &operation, int64_t microbatch) const;

  /// An instruction's fields except its scope, packed; and its scope.
  using Key = std::pair<uint64_t, trace::Scope>;
  struct Hash {
    size_t operator()(const Key &key) const;
  };
  std::unordered_map<Key, const trace::Event *, Hash> events;
};

/// The steps of a trace in order; `run` must outlive them. The last step may be incomplete, and ranks may be missing if
/// each wrote a separate file. A step that fits no variant is an error (Code::Input), which names the first instruction
/// that differs.
Status overlay(const plan::Plan &plan, const trace::Run &run, std::vector<RunStep> &steps);

} // namespace pipec::emit
