// The transport of a run, and what it requires of a plan.
#pragma once

#include "runtime/backend/RunOptions.h"
#include "runtime/simulate/Simulate.h"

#include <string>

namespace pipec::runtime {

/// The transport of a run: "sockets" on the host; between GPUs as told, else nccl where each of a machine's ranks has a
/// GPU of its own or there are several machines (`spread`), and ipc where ranks share one. Nothing of CUDA is opened.
std::string transportOf(const std::string &device, const std::string &told, int32_t ranks, bool spread);

/// The order in which transfers start, whatever a plan was proven for: over NCCL in the order of their issue, else in
/// any order.
simulate::Launch launchOf(const RunOptions &options);

/// Code::Check if the plan could deadlock over the transport: because transfers start in the order of their issue, or
/// because a GPU has fewer connections than the plan has queues. Code::Usage: the environment excludes the transport.
Status checkTransfers(const plan::Plan &plan, const RunOptions &options);

/// The communicator by which the run is predicted: launch_order, or that of the plan's first variant: per_edge,
/// per_pair, shared.
std::string communicatorOf(const plan::Plan &plan, const RunOptions &options);

} // namespace pipec::runtime
