// Rules P31 and P32: a transfer buffer is free when it is taken. The n-th transfer of a step uses slot n mod size, so
// it takes over from the one `size` before, in this step or, for the first ones, in the step before. A send buffer is
// taken when its producer starts and free when the send has completed; a receive buffer is taken when the receive
// starts and free when its consumer has completed.
#include "runtime/plan/Disassemble.h"
#include "runtime/plan/RankWalk.h"

#include <fmt/format.h>

namespace pipec::plan {

void RankWalk::produced(const Now &now, uint32_t send) {
  if (send == kNone)
    return;
  const uint32_t queue = slots[slotsOf[send]].queue;
  mark(send, now) = uint32_t(level(computeKnows[queue], queue)) + 1;
}

void RankWalk::consumed(const Now &now, uint32_t recv) { slots[slotsOf[recv]].user[mark(recv, now) - 1] = now.place; }

Status RankWalk::sendSlot(const Now &now) {
  const uint32_t operation = now.step.instruction->operation;
  Slots &ring = slots[slotsOf[operation]];
  const int64_t n = ring.count++;
  const int64_t known = int64_t(mark(operation, now)) - 1;
  ring.place[size_t(n)] = now.place;
  mark(operation, now) = kSent;
  if (n < ring.size) {
    ring.level[size_t(n)] = uint32_t(known);
    return {};
  }
  if (known >= facts.queue[now.queue] + ring.place[size_t(n - ring.size)])
    return {};
  return Status::check(fmt::format("P31: {}: its buffer is written before send {} to rank {}, {} slots earlier, is "
                                   "known complete",
                                   text(now), n - ring.size, now.step.operation->peer, ring.size));
}

Status RankWalk::recvSlot(const Now &now) {
  const uint32_t operation = now.step.instruction->operation;
  Slots &ring = slots[slotsOf[operation]];
  const int64_t n = ring.count++;
  const int64_t known = level(knowsCompute[now.queue], 0);
  ring.place[size_t(n)] = now.place;
  mark(operation, now) = uint32_t(n) + 1;
  if (n < ring.size) {
    ring.level[size_t(n)] = uint32_t(known);
    return {};
  }
  const uint32_t user = ring.user[size_t(n - ring.size)];
  if (user != 0 && known >= facts.queue[0] + user)
    return {};
  return Status::check(fmt::format("P32: {} does not wait until receive {} from rank {}, {} slots earlier, is used up",
                                   text(now), n - ring.size, now.step.operation->peer, ring.size));
}

Status RankWalk::slotsAcrossSteps() {
  for (size_t r = 0; r < slots.size(); ++r) {
    const Slots &ring = slots[r];
    const bool sends = program.rings[r].direction == Direction::Send;
    for (int64_t n = 0; n < ring.size; ++n) {
      // The last transfer of the step before that used this slot: transfers start at slot 0 again in each step.
      const int64_t last = n + (ring.transfers - 1 - n) / ring.size * ring.size;
      const uint32_t free = sends ? ring.place[size_t(last)] : ring.user[size_t(last)];
      if (ring.level[size_t(n)] < free)
        return Status::check(
            sends ? fmt::format("P31: rank {}: the buffer of send {} to rank {} is written before send {} of the step "
                                "before is known complete",
                                program.rank, n, program.rings[r].peer, last)
                  : fmt::format("P32: rank {}: receive {} from rank {} does not wait until receive {} of the step "
                                "before is used up",
                                program.rank, n, program.rings[r].peer, last));
    }
  }
  return {};
}

} // namespace pipec::plan
