// One synthetic instruction: check, fill, meet the other shards, sleep to the deadline.
#include "runtime/stage/synthetic/SyntheticStage.h"

#include "runtime/plan/Disassemble.h"

#include <algorithm>
#include <cstring>

namespace pipec::runtime {

/// Calls `each` for the samples that lie in a slot, and for what each of them has there.
template <typename Each>
void SyntheticStage::bySample(const Label &label, const Slot &slot, PatternKey key, Each each) const {
  const SyntheticState::Samples samples = state.samplesOf(label);
  const plan::Bytes bytes = slot.data ? slot.bytes / samples.count : 0;
  for (int64_t s = 0; s < samples.count && bytes > 0; ++s, key.microbatch += samples.step)
    each(Slot{slot.data + s * bytes, bytes}, key);
}

HostBody::Span SyntheticStage::run(const HostWork &work, plan::Time ready) {
  plan::Time start = paced.begin(ready);
  const Label label = work.label();
  const Slot in = work.in(), out = work.out();
  bySample(label, in, state.inputOf(label), [&](const Slot &sample, const PatternKey &key) {
    if (Status status = state.checkInput(label, in.bytes, firstWrong(sample, key)); !status.ok())
      failure.raise(std::move(status));
  });
  bySample(label, out, state.outputOf(label), fill);
  if (plan::does(label.operation->kind, plan::kForwardPass) && label.microbatch == 0)
    check(label, layers.checkWeights(*label.operation, label.step));
  if (plan::does(label.operation->kind, plan::kUpdate))
    check(label, layers.update(*label.operation, label.step));
  const Span span = spanOf(work, start);
  clock.sleepUntil(span.end);
  return span;
}

HostBody::Span SyntheticStage::spanOf(const HostWork &work, plan::Time start) {
  if (group && work.ownOf(state.place()))
    return spanOfShard(work, start);
  const plan::Time cost = work.operation().cost;
  return {start, network ? network->computeEnd(state.place().rank, start, cost) : start + cost};
}

/// As the simulator has it (runtime/simulate/WalkSums.cpp). The shards meet once, at their first sum; what each
/// computes between its sums all know of all.
HostBody::Span SyntheticStage::spanOfShard(const HostWork &work, plan::Time start) {
  const plan::Place &place = state.place();
  const auto takes = [&](int32_t shard, plan::Time from, plan::Time time) {
    plan::Place other = place;
    other.shard = shard;
    const int64_t factor = work.round->variant->own[placeIn(other)].factor;
    return network ? network->ownEnd(place.rank, shard, factor, from, time) - from : time;
  };
  const plan::OwnCost &own = *work.ownOf(place);
  const plan::Time before = takes(place.shard, start, own.before), came = start + before;
  if (!plan::meets(work.operation()))
    return {start, came, before, 0};
  if (pace != Pace::Carry)
    clock.sleepUntil(came);
  plan::Time met = came;
  group->begin(work.label());
  if (const std::string wrong = group->meet(paced.begin(came), met); !wrong.empty())
    check(work.label(), Status::run(wrong));
  group->end();
  plan::Time planned = 0, longest = 0;
  for (int32_t shard = 0; shard < place.shards; ++shard) {
    plan::Place other = place;
    other.shard = shard;
    const plan::Time between = work.ownOf(other)->between;
    planned = std::max(planned, between);
    longest = std::max(longest, takes(shard, met, between));
  }
  const plan::Time its = takes(place.shard, met, own.between);
  const plan::Time behind = met + std::max<plan::Time>(work.operation().cost - planned, 0) + longest;
  const plan::Time after = takes(place.shard, behind, own.after);
  return {start, behind + after, before + its + after, met - came + longest - its};
}

Status SyntheticStage::share(const Portions &, int64_t step) {
  plan::Time latest = 0;
  group->begin({nullptr, 0, step, 0});
  const std::string wrong = group->meet(device.completed(), latest);
  group->end();
  device.goOnAt(latest);
  return wrong.empty() ? Status{} : Status::run(plan::nameOf(state.place()) + ": portions: " + wrong);
}

void SyntheticStage::check(const Label &label, const Status &status) {
  if (!status.ok())
    failure.raise(
        Status::run(plan::describe(state.place(), *label.operation, label.microbatch) + ": " + status.message));
}

void SyntheticStage::gradientNorm(QueueId, const Label &, Slot number, const Then &then) {
  const double own = state.own();
  std::memcpy(number.data, &own, sizeof own);
  then();
}

void SyntheticStage::setGlobalNorm(QueueId, const Label &label, Slot number, const Then &then) {
  double total = 0;
  std::memcpy(&total, number.data, sizeof total);
  if (Status status = state.checkTotal(label, total); !status.ok())
    failure.raise(std::move(status));
  then();
}

} // namespace pipec::runtime
