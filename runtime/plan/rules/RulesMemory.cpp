// Rules P31, P32, P34 and P35: memory.
//
// A transfer buffer is free when it is taken. The n-th transfer of a step uses slot n mod size, so it takes over from
// the one `size` before, in this step or, for the first ones, in the step before. A send buffer is taken when its
// producer starts and free when the send has completed; a receive buffer is taken when the receive starts and free when
// its consumer has completed. What is live is counted at each instruction of the compute queue, in any timing
// (LiveMemory.h).
#include "runtime/plan/Disassemble.h"
#include "runtime/plan/Text.h"
#include "runtime/plan/TransferBuffers.h"
#include "runtime/plan/rules/RankWalk.h"

#include <algorithm>
#include <fmt/format.h>

namespace pipec::plan {
namespace {

/// Sums of sizes may pass 64 bits; a message then says the most that they hold.
std::string sizeText(__int128 bytes) { return bytesText(Bytes(std::min<__int128>(bytes, INT64_MAX))); }

/// What a rank, or one of its shards, needs: what is live at most and where, buffers, and what stands there always.
struct Needs {
  std::string who;
  __int128 live = 0;
  const Operation *at = nullptr;
  int64_t microbatch = 0;
  Bytes workspace = 0, staticBytes = 0;
};

Status overLimit(const Variant &variant, const Program &program, const Needs &needs) {
  const __int128 buffers = bufferBytes(variant, program);
  const Bytes ofJob = variant.jobMemory(program);
  const __int128 bytes = needs.live + buffers + needs.workspace + needs.staticBytes + ofJob;
  const Bytes limit = variant.limitOf(program);
  if (limit == 0 || bytes <= limit)
    return {};
  return Status::check(fmt::format(
      "P35: {} needs {}, {} over the limit of {}: {} live at {}, {} of transfer buffers, {} of workspace, {} static{}",
      needs.who, sizeText(bytes), sizeText(bytes - limit), sizeText(limit), sizeText(needs.live),
      needs.at ? describe(program.rank, *needs.at, needs.microbatch) : "no instruction", sizeText(buffers),
      sizeText(needs.workspace), sizeText(needs.staticBytes),
      ofJob == 0 ? "" : fmt::format(", {} of its job", sizeText(ofJob))));
}

} // namespace

/// All passes of shards are on the compute queue (P53).
Status rules::shardPeaks(const Variant &variant) {
  for (size_t place = 0; place != variant.own.size(); ++place) {
    const Program &program = variant.programOf(place);
    if (variant.limitOf(program) == 0)
      continue;
    const Own &own = variant.own[place];
    std::vector<Operation> operations;
    for (const Operation &o : program.operations)
      operations.push_back(operationOf(variant, place, o));
    Needs needs{nameOf(placeOf(int32_t(place), {1, variant.shards()})), 0, nullptr, 0, own.workspace, own.staticBytes};
    LiveMemory memory;
    for (Cursor cursor(program); !cursor.done(); cursor.next()) {
      const Step step = cursor.at();
      const Operation &operation = operations[step.instruction->operation];
      if (memory.hold(operation)) {
        needs.live = memory.peak();
        needs.at = step.operation;
        needs.microbatch = step.microbatch();
      }
      memory.release(operation, false);
    }
    if (Status status = overLimit(variant, program, needs); !status.ok())
      return status;
  }
  return {};
}

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

void RankWalk::hold(const Now &now) {
  if (!memory.hold(*now.step.operation))
    return;
  mostOperation = now.step.operation;
  mostMicrobatch = now.microbatch;
}

Status RankWalk::deferredAllDone() {
  if (memory.pending() == 0)
    return {};
  return Status::check(fmt::format("P34: rank {}: the compute queue does not wait for the last {} W of the weights "
                                   "queue, so they would pile up from step to step",
                                   program.rank, memory.pending()));
}

Status RankWalk::peak() {
  if (!variant.own.empty())
    return {}; // of each shard: shardPeaks
  return overLimit(variant, program,
                   {fmt::format("rank {}", program.rank), memory.peak(), mostOperation, mostMicrobatch,
                    program.workspace, program.staticBytes});
}

} // namespace pipec::plan
