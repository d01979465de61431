// What an order file of PyTorch cannot say and its reader must do, as found by running the releases.
#include "compiler/torch/TorchCsv.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace pipec::emit {

using schedule::OrderFormat;
using schedule::TorchRelease;

namespace {

/// "rank 0: 0, 7; rank 1: 1, 6"; of many ranks the first and the last.
std::string placement(const plan::Variant &variant) {
  constexpr size_t kShown = 8;
  std::string text;
  const size_t ranks = variant.programs.size();
  for (size_t rank = 0; rank != ranks; ++rank) {
    if (ranks > kShown && rank == kShown / 2) {
      text += "; ...";
      rank = ranks - kShown / 2;
    }
    text +=
        fmt::format("{}rank {}: {}", text.empty() ? "" : "; ", rank, fmt::join(variant.programs[rank].stages, ", "));
  }
  return text;
}

bool isSplit(const plan::Variant &variant) {
  const auto &operations = variant.programs.front().operations;
  return std::any_of(operations.begin(), operations.end(),
                     [](const plan::Operation &each) { return each.kind == plan::Kind::BackwardWeight; });
}

bool handsOverLocally(const plan::Variant &variant) {
  for (const plan::Program &program : variant.programs)
    if (std::adjacent_find(program.stages.begin(), program.stages.end(),
                           [](int32_t a, int32_t b) { return b == a + 1; }) != program.stages.end())
      return true;
  return false;
}

bool has(const plan::Variant &variant, plan::Kind kind) {
  for (const plan::Program &program : variant.programs)
    for (const plan::Operation &operation : program.operations)
      if (operation.kind == kind)
        return true;
  return false;
}

bool fillsWeights(const plan::Variant &variant) {
  const auto &queues = variant.programs.front().queues;
  return std::any_of(queues.begin(), queues.end(),
                     [](const plan::Queue &queue) { return queue.priority == plan::Priority::Weights; });
}

} // namespace

std::vector<std::string> torchNotes(const plan::Variant &variant, OrderFormat format, TorchRelease release) {
  const bool comms = format == OrderFormat::ComputeComms;
  std::vector<std::string> notes;
  notes.push_back(fmt::format("load it in each of {} processes: _PipelineScheduleRuntime(stages, {}, "
                              "loss_fn=...)._load_csv(path, format=\"{}\")",
                              variant.programs.size(), variant.microbatches, comms ? "compute_comms" : "compute_only"));
  if (!comms)
    notes.push_back("torchtitan takes it as pipeline_parallel_schedule_csv and the placement from the schedule's name: "
                    "PipelineScheduleSingle (one stage a rank), PipelineScheduleMulti (loop) or ZBVZeroBubble (v)");
  notes.push_back(fmt::format("stages, of {}, each process passing its own in ascending order: {}", variant.stages,
                              placement(variant)));
  if (release == TorchRelease::V2_8 && isSplit(variant))
    notes.push_back(fmt::format("releases 2.8 and 2.9 do not scale gradients after a split backward: pass "
                                "scale_grads=False and divide the loss by {}",
                                variant.microbatches));
  else
    notes.push_back(fmt::format("loss_fn is a mean over its microbatch, and scale_grads stays True: gradients are "
                                "divided by {}",
                                variant.microbatches));
  if (release != TorchRelease::V2_15 && handsOverLocally(variant))
    notes.push_back("neighbouring stages stand on one rank: with Gloo, releases 2.9 to 2.11 need "
                    "PipelineStage._get_init_p2p_neighbors_ops = lambda self: []");
  if (const Communicator own = communicatorOf(variant); comms && isByDirection(own))
    notes.push_back(fmt::format("the spec's communicator is {}{}", name(own),
                                release == TorchRelease::V2_15
                                    ? ": set TORCH_DISTRIBUTED_PIPELINE_PER_EDGE_P2P=1; on one process group it ends "
                                      "too, but transfers may wait for each other"
                                    : ", which PyTorch has from 2.15 on: it ends on one process group too, but "
                                      "transfers may wait for each other (communicator: shared places them for it)"));
  if (has(variant, plan::Kind::Overlapped))
    notes.push_back(release == TorchRelease::V2_8
                        ? "overlapped pairs stand one after the other: releases before 2.9 have no OVERLAP_F_B"
                        : "OVERLAP_F_B runs its two one after the other unless register_custom_function says how they "
                          "overlap");
  if (const auto again = plan::stagesDoing(variant, plan::kRecomputation); !again.empty())
    notes.push_back(fmt::format("R is left out, the files have none: checkpoint what these stages run "
                                "(torch.utils.checkpoint), so that their backward does it: {}",
                                fmt::join(again, ", ")));
  if (has(variant, plan::Kind::Optimizer))
    notes.push_back(
        has(variant, plan::Kind::AllReduce)
            ? "the optimizer's step and the norm of all gradients, or the sums of shared weights, before it are "
              "the caller's, after step()"
            : "the optimizer's step is the caller's, after step()");
  if (fillsWeights(variant))
    notes.push_back("weights: fill: W stand where the predicted run has them");
  return notes;
}

} // namespace pipec::emit
