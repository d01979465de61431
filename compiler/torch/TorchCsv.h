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

/// How the variant's transfers share queues; Shared if there are no transfers.
Communicator communicatorOf(const plan::Variant &variant);

/// The cells of a variant. Code::Input, with the reason, if the format cannot express the variant. `run`: the variant's
/// simulation with its visits (when each instruction runs), if it exists already.
Status torchCells(const plan::Variant &variant, schedule::OrderFormat format, schedule::TorchRelease release,
                  schedule::OrderCells &cells, const simulate::Result *run = nullptr);

/// The file: one row per rank, no header, no empty cell.
std::string torchCsv(const schedule::OrderCells &cells);

/// Notes for the user of the file: what must be done besides loading it, which the file cannot express; one line each.
std::vector<std::string> torchNotes(const plan::Variant &variant, schedule::OrderFormat format,
                                    schedule::TorchRelease release);

/// Finds the spelling for a release that --torch names; false if it is unknown.
bool findRelease(std::string_view name, schedule::TorchRelease &release);
inline constexpr std::string_view kReleases = "2.8 to 2.15";

} // namespace pipec::emit
