// How data get from rank to rank in a run, and what that asks of a plan.
#pragma once

#include "runtime/backend/RunOptions.h"
#include "runtime/simulate/Simulate.h"

#include <string>

namespace pipec::runtime {

/// The transport of a run: "sockets" on the host; between GPUs as told, else nccl where each of a machine's ranks has a
/// GPU of its own or there are several machines (`spread`), and ipc where ranks share one. Nothing of CUDA is opened.
std::string transportOf(const std::string &device, const std::string &told, int32_t ranks, bool spread);

/// In which order transfers start, whatever a plan was proven for: NCCL keeps to the order of their issue, all else
/// does not.
simulate::Launch launchOf(const RunOptions &options);

/// Refuses (Code::Check) a plan that could stop over the transport: where transfers start in the order of their issue,
/// or where a GPU has fewer connections than the plan's queues. Code::Usage: the environment rules the transport out.
Status checkTransfers(const plan::Plan &plan, const RunOptions &options);

/// By which queues the run is predicted: launch_order, or those of the plan's first variant: per_edge, per_pair,
/// shared.
std::string communicatorOf(const plan::Plan &plan, const RunOptions &options);

} // namespace pipec::runtime
