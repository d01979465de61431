// A real run laid over a plan: which variant each step of the run executed, and which event of the trace is which
// instruction.
#pragma once

#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"
#include "runtime/trace/Trace.h"

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

namespace pipec::emit {

/// Simulated steps repeat after a few; every later one is drawn as this one.
inline constexpr int64_t kSettled = 7;

/// Where pieces of background jobs stand, of each place: starts and ends, ascending, those one behind the other as one.
using Pieces = std::vector<std::vector<std::pair<plan::Time, plan::Time>>>;

struct RunStep {
  int64_t step = 0;
  size_t variant = 0;
  plan::Time begin = 0;                   // the first start of an instruction that is no transfer
  plan::Time end = 0;                     // the last end of one
  std::vector<trace::Decision> decisions; // by time, from its begin
  Pieces pieces;                          // from its begin to its end

  /// The event of an instruction; null where the run did not get so far.
  const trace::Event *find(int32_t rank, const plan::Operation &operation, int64_t microbatch) const;

  /// Of an instruction: all but its scope, packed; and that.
  using Key = std::pair<uint64_t, trace::Scope>;
  struct Hash {
    size_t operator()(const Key &key) const;
  };
  std::unordered_map<Key, const trace::Event *, Hash> events;
};

/// The steps of a trace in order; `run` must outlive them. A step may end early, where the run did; ranks may be
/// missing, where each wrote a file of its own. A step that fits no variant is an error (Code::Input), which names the
/// first instruction that differs.
Status overlay(const plan::Plan &plan, const trace::Run &run, std::vector<RunStep> &steps);

} // namespace pipec::emit
