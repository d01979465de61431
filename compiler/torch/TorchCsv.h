// A plan's variant as an order file of torch.distributed.pipelining, in both formats of
// _PipelineScheduleRuntime._load_csv: compute_only (all releases from 2.8 on; also torchtitan's
// pipeline_parallel_schedule_csv), and compute_comms in the spelling of a release.
#pragma once

#include "compiler/torch/OrderCells.h"
#include "compiler/torch/OrderProof.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"
#include "runtime/simulate/Simulate.h"

#include <string>
#include <vector>

namespace pipec::emit {

/// How the variant's transfers share queues; Shared where there are none.
Communicator communicatorOf(const plan::Variant &variant);

/// The cells of a variant. Code::Input, with the reason, where the format cannot say what the variant does. `run`: the
/// variant's walk with its visits (when each instruction runs), if there is one already.
Status torchCells(const plan::Variant &variant, schedule::OrderFormat format, schedule::TorchRelease release,
                  schedule::OrderCells &cells, const simulate::Result *run = nullptr);

/// The file: a row a rank, no header, no empty cell.
std::string torchCsv(const schedule::OrderCells &cells);

/// What whoever loads the file must also do, and the file cannot say; a line each.
std::vector<std::string> torchNotes(const plan::Variant &variant, schedule::OrderFormat format,
                                    schedule::TorchRelease release);

/// The releases that --torch takes, as one spelling each; false where the name is of none of them.
bool findRelease(std::string_view name, schedule::TorchRelease &release);
inline constexpr std::string_view kReleases = "2.8 to 2.15";

} // namespace pipec::emit
