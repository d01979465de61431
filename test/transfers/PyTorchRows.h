// PyTorch's rows of actions, for tests: how it places transfers among passes, how many steps its own dry run takes, and
// rows as a plan's variant that runs as PyTorch runs them. Written from facts about torch.distributed.pipelining, apart
// from the passes: words come in, numbered letters and transfers come out.
#pragma once

#include "compiler/schedule/model/Problem.h"
#include "runtime/plan/Plan.h"

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace pipec::test {

/// One action of a row: `2F0`, `2SEND_F0`, `3RECV_F0`, …
struct Action {
  enum class Kind : uint8_t { F, B, W, SendF, RecvF, SendB, RecvB } kind;
  int32_t stage, microbatch;
  auto operator<=>(const Action &) const = default;
};
using TorchRows = std::vector<std::vector<Action>>;

enum class Queues : uint8_t { PerEdge, PerPair, Shared };
const char *nameOf(Queues queues); // "per_edge", …

/// `_add_send_recv`: in sweeps over the ranks, an action whose input has been put into its row is taken; what it gives
/// is put into its row as a send and, at the same moment, into the other rank's as a receive.
TorchRows placedByTorch(const schedule::Problem &problem, const schedule::Words &words);

/// `_simulate_comms_compute`: in each step every rank retires one action if it can; a second look at the ranks that
/// could not follows. The number of steps; -1 if it does not end.
int64_t torchSteps(const schedule::Problem &problem, const TorchRows &rows);

/// The rows as PyTorch runs them: a pass waits for what it takes, a transfer for all passes before it in its row. One
/// microbatch's cost at a time, no slots, one straight segment a rank.
plan::Variant asTorchRuns(const schedule::Problem &problem, const TorchRows &rows, Queues queues);

/// What a compiled variant issues on each rank, without optimizer and all-reduce.
TorchRows rowsOf(const plan::Variant &variant);

} // namespace pipec::test
