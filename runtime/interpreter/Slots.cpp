// Rings and the bookkeeping of who uses which slot.
#include "runtime/interpreter/Slots.h"

#include <algorithm>
#include <fmt/format.h>

namespace pipec::runtime {

using plan::Kind;
using plan::Payload;

Slots::Key Slots::keyOf(int32_t stage, Payload of, int64_t microbatch) {
  return (uint64_t(uint32_t(stage)) << 32 | uint64_t(uint32_t(microbatch))) << 1 | uint64_t(of == Payload::Backward);
}

Slots::Slots(const plan::Program &program, plan::Bytes payloadLimit)
    : program(program), payloadLimit(payloadLimit), ahead(program) {
  for (const plan::Ring &ring : program.rings)
    rings.push_back({&ring, nullptr, std::min(ring.slotBytes, payloadLimit), 0, 0});
  for (const plan::Operation &op : program.operations)
    if (op.kind == Kind::Send)
      sent.insert(keyOf(op.stage, op.of, 0));
}

Status Slots::allocate(Device &device) {
  for (Ring &ring : rings) {
    plan::Bytes bytes = 0;
    if (!__builtin_mul_overflow(std::max<plan::Bytes>(ring.slotBytes, 1), plan::Bytes(ring.plan->size), &bytes))
      ring.data = device.allocate(bytes);
    if (!ring.data)
      return Status::run(fmt::format("rank {}: not enough memory for {} slots of {} bytes for rank {}", program.rank,
                                     ring.plan->size, ring.slotBytes, ring.plan->peer));
  }
  return {};
}

void Slots::beginStep() {
  for (Ring &ring : rings)
    ring.issued = ring.seen = 0;
  ahead = plan::Cursor(program);
  arrived.clear();
  announced.clear();
}

Slots::Ring &Slots::ringOf(const plan::Operation &operation) {
  plan::Direction direction = operation.kind == Kind::Send ? plan::Direction::Send : plan::Direction::Recv;
  return *std::find_if(rings.begin(), rings.end(), [&](const Ring &ring) {
    return ring.plan->peer == operation.peer && ring.plan->direction == direction;
  });
}

Slot Slots::slot(const Ring &ring, const plan::Operation &operation, int64_t n) const {
  plan::Bytes stride = std::max<plan::Bytes>(ring.slotBytes, 1);
  return {ring.data + (n % ring.plan->size) * stride, std::min(operation.bytes, payloadLimit)};
}

Slot Slots::ofTransfer(const plan::Step &step) {
  const plan::Operation &op = *step.operation;
  Ring &ring = ringOf(op);
  Slot result = slot(ring, op, ring.issued++);
  if (op.kind == Kind::Recv)
    arrived[keyOf(op.stage, op.of, step.microbatch())] = result;
  return result;
}

StageSlots Slots::ofCompute(const plan::Step &step) {
  const plan::Operation &op = *step.operation;
  if (op.kind != Kind::Forward && op.kind != Kind::BackwardInput && op.kind != Kind::Backward)
    return {};
  Payload of = op.kind == Kind::Forward ? Payload::Forward : Payload::Backward;
  return {consumed(op.stage, of, step.microbatch()), produced(op.stage, of, step.microbatch())};
}

Slot Slots::consumed(int32_t stage, Payload of, int64_t microbatch) {
  auto found = arrived.find(keyOf(stage, of, microbatch));
  if (found == arrived.end())
    return {};
  Slot result = found->second;
  arrived.erase(found);
  return result;
}

Slot Slots::produced(int32_t stage, Payload of, int64_t microbatch) {
  if (!sent.count(keyOf(stage, of, 0)))
    return {};
  Key key = keyOf(stage, of, microbatch);
  for (; !announced.count(key); ahead.next()) { // ends: each microbatch of such a stage is sent (P23)
    plan::Step step = ahead.at();
    if (step.operation->kind != Kind::Send)
      continue;
    Ring &ring = ringOf(*step.operation);
    announced[keyOf(step.operation->stage, step.operation->of, step.microbatch())] =
        slot(ring, *step.operation, ring.seen++);
  }
  Slot result = announced[key];
  announced.erase(key);
  return result;
}

} // namespace pipec::runtime
