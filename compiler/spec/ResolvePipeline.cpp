// The shape: ranks, stages and where they stand, microbatches, the cut.
#include "compiler/spec/Resolve.h"

#include "runtime/plan/Limits.h"

#include <fmt/format.h>
#include <limits>

namespace pipec::spec {
namespace {

/// Every stage on exactly one rank, and none left out.
void readRankLists(const Lookup &lookup, const Node &lists, Spec &spec) {
  spec.placement->kind = PlacementKind::List;
  if (spec.ranks.value > 0 && lists.items.size() != static_cast<size_t>(spec.ranks.value))
    lookup.errors.add(lists.mark, fmt::format("pipeline.placement: expected {} lists, one for each rank, found {}",
                                              spec.ranks.value, lists.items.size()));
  size_t count = 0;
  for (const NodePtr &list : lists.items)
    count += list->items.size();
  std::vector<const Node *> first(count);
  std::vector<size_t> rankOf(count);
  bool valid = true;
  for (size_t rank = 0; rank < lists.items.size(); ++rank) {
    const Node &list = *lists.items[rank];
    if (spec.stagesPerRank && list.items.size() != static_cast<size_t>(spec.stagesPerRank->value))
      lookup.errors.add(list.mark,
                        fmt::format("pipeline.placement[{}]: expected {} stages, found {}", rank,
                                    spec.stagesPerRank->value, list.items.size()),
                        spec.stagesPerRank->mark, "stages_per_rank is given here");
    std::vector<int32_t> &stages = spec.placement->stages.emplace_back();
    for (const NodePtr &item : list.items) {
      auto stage = static_cast<size_t>(std::stoll(item->text)); // digits, at most seven
      if (stage >= count) {
        lookup.errors.add(
            item->mark,
            fmt::format("pipeline.placement[{}]: expected stages from 0 to {}, since {} are placed, found {}", rank,
                        count - 1, count, stage));
        valid = false;
      } else if (first[stage]) {
        lookup.errors.add(item->mark,
                          fmt::format("pipeline.placement: stage {} stands on rank {} and again on rank {}; only "
                                      "'bidirectional' puts a stage on two ranks",
                                      stage, rankOf[stage], rank),
                          first[stage]->mark, "placed first here");
        valid = false;
      } else {
        first[stage] = item.get();
        rankOf[stage] = rank;
        stages.push_back(static_cast<int32_t>(stage));
      }
    }
  }
  for (size_t stage = 0; stage < count && !lookup.errors.full(); ++stage)
    if (!first[stage]) {
      lookup.errors.add(lists.mark, fmt::format("pipeline.placement: stage {} of {} stands on no rank", stage, count));
      valid = false;
    }
  if (valid && count <= static_cast<size_t>(limits::kStages)) {
    spec.stages = static_cast<int32_t>(count);
    spec.stagesGiven = true;
  }
}

void readStages(const Lookup &lookup, Spec &spec) {
  spec.pipeline = lookup.markOf("pipeline");
  lookup.single("pipeline.ranks", spec.ranks);
  if (lookup.get("pipeline.stages_per_rank"))
    lookup.single("pipeline.stages_per_rank", spec.stagesPerRank.emplace());
  const Value *placement = lookup.get("pipeline.placement");
  if (placement) {
    spec.placement.emplace().mark = placement->mark;
    if (placement->node->isSequence())
      readRankLists(lookup, *placement->node, spec);
    else
      spec.placement->kind = static_cast<PlacementKind>(placement->numbers[0].fixed);
  }
  if (spec.ranks.value == 0 || spec.stages > 0 || (lookup.given("pipeline.placement") && !placement) ||
      (lookup.given("pipeline.stages_per_rank") && !spec.stagesPerRank))
    return; // known, or not to be known
  bool back = spec.placement && spec.placement->kind == PlacementKind::V;
  if (back && spec.stagesPerRank && spec.stagesPerRank->value == 1) {
    lookup.errors.add(
        spec.placement->mark,
        "pipeline.placement: v goes there and back over the ranks, which takes two stages a rank or more, "
        "found stages_per_rank: 1",
        spec.stagesPerRank->mark, "stages_per_rank is given here");
    return;
  }
  int64_t stages = int64_t(spec.ranks.value) * (spec.stagesPerRank ? spec.stagesPerRank->value : back ? 2 : 1);
  if (stages > limits::kStages)
    lookup.errors.add(lookup.markOf("pipeline.stages_per_rank"),
                      fmt::format("pipeline.stages_per_rank: expected at most {} stages in all, found {} on {} ranks",
                                  limits::kStages, stages, spec.ranks.value));
  else
    spec.stages = static_cast<int32_t>(stages);
  spec.stagesGiven = spec.stages > 0 && spec.stagesPerRank.has_value();
}

/// microbatches, or batch / microbatch_size.
void readMicrobatches(const Lookup &lookup, Spec &spec) {
  bool direct = lookup.given("pipeline.microbatches");
  bool batch = lookup.given("pipeline.batch");
  bool size = lookup.given("pipeline.microbatch_size");
  if (direct && (batch || size))
    lookup.errors.add(lookup.markOf(batch ? "pipeline.batch" : "pipeline.microbatch_size"),
                      "pipeline: give either microbatches, or batch and microbatch_size",
                      lookup.markOf("pipeline.microbatches"), "microbatches is given here");
  else if (!direct && !batch && !size)
    lookup.errors.add(spec.pipeline, "pipeline.microbatches is missing (or batch and microbatch_size)");
  else if (batch != size)
    lookup.errors.add(lookup.markOf(batch ? "pipeline.batch" : "pipeline.microbatch_size"),
                      fmt::format("pipeline.{} is missing: batch and microbatch_size go together",
                                  batch ? "microbatch_size" : "batch"));
  lookup.single("pipeline.microbatches", spec.microbatches);
  const Value *samples = lookup.get("pipeline.batch");
  const Value *each = lookup.get("pipeline.microbatch_size");
  if (direct || !samples || !each)
    return;
  int64_t whole = samples->numbers[0].fixed, part = each->numbers[0].fixed;
  if (part > std::numeric_limits<int32_t>::max() || whole % part != 0 || whole / part > limits::kMicrobatches) {
    lookup.errors.add(samples->mark,
                      fmt::format("pipeline.batch: expected 1 to {} times the microbatch_size {}, found {}",
                                  limits::kMicrobatches, part, whole));
    return;
  }
  spec.microbatches = {static_cast<int32_t>(whole / part), samples->mark};
  spec.microbatchSize = {static_cast<int32_t>(part), each->mark};
}

/// Of burst: one microbatch, the whole batch.
void readWholeBatch(const Lookup &lookup, Spec &spec) {
  const Value *batch = lookup.get("pipeline.batch");
  if (!lookup.given("pipeline.batch"))
    lookup.errors.add(spec.pipeline,
                      "pipeline.batch is missing: schedule burst shares the samples of a step out among ranks");
  lookup.single("pipeline.microbatches", spec.microbatches);
  if (spec.microbatches.value > 1)
    lookup.errors.add(
        spec.microbatches.mark,
        fmt::format("pipeline.microbatches: expected 1 with schedule burst, found {}", spec.microbatches.value));
  if (!batch)
    return;
  const int64_t samples = batch->numbers[0].fixed;
  if (const Value *size = lookup.get("pipeline.microbatch_size"); size && size->numbers[0].fixed != samples)
    lookup.errors.add(size->mark, fmt::format("pipeline.microbatch_size: expected the batch with schedule burst, which "
                                              "has one microbatch, found {}",
                                              size->numbers[0].fixed));
  if (constexpr int32_t kMost = std::numeric_limits<int32_t>::max(); samples > kMost) {
    lookup.errors.add(
        batch->mark,
        fmt::format("pipeline.batch: expected at most {} samples with schedule burst, found {}", kMost, samples));
    return;
  }
  spec.microbatches = {1, batch->mark};
  spec.microbatchSize = {static_cast<int32_t>(samples), batch->mark};
}

} // namespace

void resolvePipeline(const Lookup &lookup, Spec &spec) {
  if (!lookup.get("pipeline"))
    return; // said already
  readStages(lookup, spec);
  if (spec.isBurst())
    readWholeBatch(lookup, spec);
  else
    readMicrobatches(lookup, spec);
  lookup.single("pipeline.slices", spec.slices);
  if (int64_t(spec.slices.value) * spec.microbatches.value > limits::kMicrobatches)
    lookup.errors.add(spec.slices.mark, fmt::format("pipeline.slices: expected at most {} slices of {} microbatches in "
                                                    "all, found {}",
                                                    limits::kMicrobatches, spec.microbatches.value,
                                                    int64_t(spec.slices.value) * spec.microbatches.value));
}

} // namespace pipec::spec
