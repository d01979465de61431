// Rules P26 to P30: data order. What an instruction reads has been made by an instruction that must have completed:
// earlier on its own queue, or on another one and covered by a wait of this queue up to here.
#include "runtime/plan/Disassemble.h"
#include "runtime/plan/Limits.h"
#include "runtime/plan/rules/RankWalk.h"

#include <algorithm>
#include <fmt/format.h>

namespace pipec::plan {
namespace {

/// Adds a range to ranges that are apart from it and from each other, and joins those that meet.
void join(std::map<int32_t, int32_t> &ranges, int32_t first, int32_t end) {
  auto at = ranges.emplace(first, end).first;
  if (const auto next = std::next(at); next != ranges.end() && next->first == end) {
    at->second = next->second;
    ranges.erase(next);
  }
  if (at != ranges.begin())
    if (const auto before = std::prev(at); before->second == first) {
      before->second = at->second;
      ranges.erase(at);
    }
}

} // namespace

/// Where the pass that does this work for the microbatch stands on its queue; 0: not yet.
uint32_t RankWalk::placeOf(Work work, const Stage &stage, const Now &now) {
  for (const Kind kind : kindsDoing(work))
    if (const uint32_t operation = stage.of(kind); operation != kNone)
      if (const uint32_t place = mark(operation, now); place != 0)
        return place;
  return 0;
}

static constexpr size_t kBackwards = counterOf(Kind::Backward), kWeights = counterOf(Kind::BackwardWeight);

/// A pass that keeps all rules: notes it.
void RankWalk::passed(const Now &now) {
  const Kind kind = now.step.operation->kind;
  Stage &stage = stageOf(now);
  if (now.ends)
    mark(stage.of(kind), now) = now.place;
  ++stage.done[counterOf(kind)];
  if (now.queue != 0)
    stage.lastDeferred = now.place;
  hold(now);
  memory.release(*now.step.operation, now.queue != 0);
}

/// P46: F and R go up through the layers of their stage, B and BW down, W in any order.
Status RankWalk::partOrder(Now &now) {
  const Operation &o = *now.step.operation;
  const uint64_t key = beganAs(stageOf(now).of(o.kind), now);
  Begun &own = begun[key];
  const int32_t first = o.firstLayer, end = o.firstLayer + o.layers, all = layers.count(o.stage);
  now.begins = own.count == 0;
  const bool down = does(o.kind, kInputGradient);
  if (down ? end != (now.begins ? all : own.layers.begin()->first)
           : !does(o.kind, kWeightGradient) && first != (now.begins ? 0 : own.layers.begin()->second))
    return Status::check(
        fmt::format("P46: {} comes out of order: expected parts that go {} through the layers of their "
                    "stage",
                    text(now), down ? "down" : "up"));
  const auto behind = own.layers.lower_bound(first);
  if ((behind != own.layers.end() && behind->first < end) ||
      (behind != own.layers.begin() && std::prev(behind)->second > first))
    return Status::check(fmt::format("P46: {} has a layer that another part of it has had", text(now)));
  openParts -= int64_t(own.layers.size());
  join(own.layers, first, end);
  openParts += int64_t(own.layers.size());
  if (openParts > limits::kOpenParts)
    return Status::check(fmt::format("P46: {} is one of more than {} parts of passes that have begun and not ended",
                                     text(now), limits::kOpenParts));
  own.count += o.layers;
  now.ends = own.count == all;
  if (now.ends) {
    begun.erase(key);
    --openParts; // all of its layers were one range
  }
  return partMemory(now);
}

/// P33: the part that runs first takes what the pass holds, the one that runs last gives back what it releases.
Status RankWalk::partMemory(const Now &now) {
  const Operation &o = *now.step.operation;
  const Whole &whole = wholes[stageOf(now).of(o.kind)];
  if (bytesOf(o, rowOf(o.kind).holds) != (now.begins ? whole.holds : 0))
    return Status::check(fmt::format("P33: {}: expected the part that runs first to hold what the pass holds, and no "
                                     "other",
                                     text(now)));
  if (bytesOf(o, rowOf(o.kind).frees) != (now.ends ? whole.frees : 0))
    return Status::check(fmt::format("P33: {}: expected the part that runs last to release what the pass releases, and "
                                     "no other",
                                     text(now)));
  return {};
}

/// That the compute queue knows the receive of its input to be complete.
Status RankWalk::received(const Now &now, uint32_t recv, const char *label) {
  const Slots &ring = slots[slotsOf[recv]];
  const uint32_t n = mark(recv, now);
  if (n != 0 && ring.place[n - 1] <= computeKnows[ring.queue].now)
    return {};
  return Status::check(fmt::format("{}: {} does not wait for its input, {}", label, text(now),
                                   describe(program.rank, program.operations[recv], now.microbatch)));
}

Status RankWalk::forwardInput(const Now &now) {
  Stage &stage = stageOf(now);
  if (const uint32_t recv = stage.recv(Payload::Forward); recv != kNone && now.begins) {
    if (Status status = received(now, recv, "P26"); !status.ok())
      return status;
    consumed(now, recv);
  } else if (recv == kNone && stage.before && placeOf(kForwardPass, *stage.before, now) == 0) {
    return Status::check(fmt::format("P26: {} comes before F of stage {}", text(now), now.step.operation->stage - 1));
  }
  if (now.ends)
    produced(now, stage.send(Payload::Forward));
  passed(now);
  return {};
}

Status RankWalk::backwardInput(const Now &now) {
  Stage &stage = stageOf(now);
  if (placeOf(kForwardPass, stage, now) == 0)
    return Status::check(fmt::format("P27: {} comes before its F", text(now)));
  if (stage.of(Kind::Recompute) != kNone && placeOf(kRecomputation, stage, now) == 0)
    return Status::check(fmt::format("P27: {} comes before its R", text(now)));
  if (const uint32_t recv = stage.recv(Payload::Backward); recv != kNone && now.begins) {
    if (Status status = received(now, recv, "P27"); !status.ok())
      return status;
    consumed(now, recv);
  } else if (recv == kNone && stage.after && placeOf(kInputGradient, *stage.after, now) == 0) {
    return Status::check(
        fmt::format("P27: {} comes before the backward of stage {}", text(now), now.step.operation->stage + 1));
  }
  if (now.ends)
    produced(now, stage.send(Payload::Backward));
  passed(now);
  return {};
}

/// Of passes that take nothing of a neighbour.
Status RankWalk::passInput(const Now &now) {
  if (const Work after = rowOf(now.step.operation->kind).after; after != kNoWork) {
    const uint32_t input = placeOf(after, stageOf(now), now);
    if (input == 0)
      return Status::check(fmt::format("P28: {} comes before its {}", text(now), name(after)));
    if (now.queue != 0 && input > knowsCompute[now.queue].now)
      return Status::check(fmt::format("P28: {} does not wait for its {}", text(now), name(after)));
  }
  passed(now);
  return {};
}

Status RankWalk::sendInput(const Now &now) {
  const Operation &o = *now.step.operation;
  const Stage &stage = stageOf(now);
  const uint32_t producer =
      o.of == Payload::Forward ? placeOf(kForwardPass, stage, now) : placeOf(kInputGradient, stage, now);
  if (producer == 0)
    return Status::check(fmt::format("P29: {} comes before what it sends is made", text(now)));
  if (producer > knowsCompute[now.queue].now)
    return Status::check(fmt::format("P29: {} does not wait until what it sends is made", text(now)));
  return {};
}

bool RankWalk::awaits(const Now &now, uint32_t queue, int64_t count) const {
  if (now.queue == queue)
    return now.place > count;
  const Instruction &instruction = *now.step.instruction;
  for (uint32_t w = instruction.firstWait; w < instruction.firstWait + instruction.waits; ++w)
    if (const Wait &wait = program.waits[w]; wait.queue == queue && !wait.previousStep && wait.base >= count)
      return true;
  return false;
}

Status RankWalk::reduceInput(const Now &now) {
  for (const Stage &stage : stages)
    for (const size_t counter : {kBackwards, kWeights})
      if (stage.done[counter] < stage.due[counter])
        return Status::check(fmt::format("P39: {} comes before the last backward of its rank", text(now)));
  const Reduce &before = now.step.operation->of == Payload::Norm ? copySum : Reduce{};
  if (before.queue != kNone) { // the norm is that of the sums
    if (before.place == 0 || !awaits(now, before.queue, before.place))
      return Status::check(fmt::format("P39: {} does not wait for the sum of its copies' gradients", text(now)));
  } else if (knowsCompute[now.queue].now < issued[0]) {
    return Status::check(fmt::format("P39: {} does not wait for the last backward of its rank", text(now)));
  } else if (weightsQueue != kNone && !awaits(now, weightsQueue, issued[weightsQueue])) {
    return Status::check(fmt::format("P39: {} does not wait for the last W of its rank", text(now)));
  }
  reduceOf(*now.step.operation).place = now.place;
  return {};
}

Status RankWalk::reduced(const Now &now) {
  for (const Reduce &each : {copySum, norm}) {
    if (each.queue == kNone)
      continue;
    if (each.place == 0)
      return Status::check(fmt::format("P39: {} comes before the all-reduce", text(now)));
    if (each.place > computeKnows[each.queue].now)
      return Status::check(fmt::format("P39: {} does not wait for the all-reduce", text(now)));
  }
  return {};
}

/// Forwards need the slices before them, backwards those behind them, on their own stage.
Status RankWalk::sliceOrder(const Now &now) {
  const bool forward = does(now.step.operation->kind, kForwardPass);
  const int64_t slice = now.microbatch % variant.slices;
  if (slice == (forward ? 0 : variant.slices - 1))
    return {};
  Now other = now;
  other.microbatch += forward ? -1 : 1;
  Stage &stage = stageOf(now);
  if ((forward ? placeOf(kForwardPass, stage, other) : placeOf(kInputGradient, stage, other)) != 0)
    return {};
  return Status::check(fmt::format("P42: {} comes before that of slice {} of its sequence", text(now),
                                   other.microbatch % variant.slices));
}

Status RankWalk::optimizerInput(const Now &now) {
  const Stage &stage = stageOf(now);
  if (stage.done[kBackwards] < stage.due[kBackwards])
    return Status::check(fmt::format("P30: {} comes before the last backward of its stage", text(now)));
  if (stage.done[kWeights] < stage.due[kWeights])
    return Status::check(fmt::format("P30: {} comes before the last W of its stage", text(now)));
  if (stage.lastDeferred > 0 && stage.lastDeferred > computeKnows[weightsQueue].now)
    return Status::check(fmt::format("P30: {} does not wait for the last W of its stage", text(now)));
  return {};
}

} // namespace pipec::plan
