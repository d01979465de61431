// Sums between the shards of a rank.
#include "runtime/simulate/Walk.h"

#include <algorithm>

namespace pipec::simulate {

using plan::Time;

/// To call when the waits of a shard's head are met: the shard computes until its first sum, and the last shard to come
/// lets all go on. Shards run one program, and none passes an instruction with sums before all have come to it, so all
/// are at the same one.
void Walk::come(uint32_t q, Time when) {
  QueueState &queue = queues[q];
  queue.posted = true;
  queue.ready = when;
  queue.pairEnd = ownEnd(queue, when, workOf(head(queue)).cost);
  const uint32_t first = firstQueue[size_t(rankOf(queue) * shards)] + queue.index;
  Sum &sum = sums[first];
  sum.ready = sum.count == 0 ? queue.pairEnd : std::max(sum.ready, queue.pairEnd);
  if (++sum.count == shards)
    meetShards(first, std::exchange(sum, {}));
}

/// Runs an instruction to which all shards of a rank have come. Only a scenario makes the times between sums differ
/// from the plan.
void Walk::meetShards(uint32_t first, const Sum &sum) {
  const int32_t place = queues[first].place;
  const auto queueOf = [&](int32_t shard) { return firstQueue[size_t(place + shard)] + queues[first].index; };
  const plan::Operation &operation = *workOf(head(queues[first])).operation;
  const auto index = size_t(&operation - programOf(size_t(place)).operations.data());
  const auto ownOf = [&](int32_t shard) -> const plan::OwnCost & {
    return variant.own[size_t(place + shard)].operations[index];
  };
  const auto between = [&](int32_t shard) {
    const Time time = ownOf(shard).between;
    return options.scenario ? ownEnd(queues[queueOf(shard)], sum.ready, time) - sum.ready : time;
  };
  Time planned = 0, longest = 0;
  for (int32_t shard = 0; shard != shards; ++shard) {
    planned = std::max(planned, ownOf(shard).between);
    longest = std::max(longest, between(shard));
  }
  const Time behind =
      Time(std::min<__int128>(__int128(sum.ready) + std::max<Time>(operation.cost - planned, 0) + longest, kNever));
  for (int32_t shard = 0; shard != shards; ++shard) {
    const uint32_t q = queueOf(shard);
    QueueState &queue = queues[q];
    const Time end = ownEnd(queue, behind, workOf(head(queue)).latency), its = between(shard);
    // A scenario's times are as long as kNever; all parts together are no more than the whole.
    const __int128 own = __int128(queue.pairEnd - queue.ready) + its + (end - behind);
    const __int128 waited = __int128(sum.ready - queue.pairEnd) + (longest - its);
    const auto within = [&](__int128 part) { return Time(std::min<__int128>(part, end - queue.ready)); };
    const Met met{queue.pairEnd, sum.ready, within(own), within(waited)};
    queue.posted = false;
    complete(q, queue.ready, end, end, &met);
    pending.push_back(q);
  }
}

} // namespace pipec::simulate
