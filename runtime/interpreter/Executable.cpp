// Numbering queues, and the tables of slots: a walk of one step, in which the transfers are counted.
#include "runtime/interpreter/Executable.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace pipec::runtime {

using plan::Direction;
using plan::Kind;
using plan::Payload;

namespace {

Direction directionOf(const plan::Operation &op) { return op.kind == Kind::Send ? Direction::Send : Direction::Recv; }

} // namespace

Status Executable::make(std::shared_ptr<const void> owner, const plan::Program &program, const Layout &layout,
                        const TransferMemory &memory, std::shared_ptr<const Executable> &result) {
  std::vector<uint32_t> queueOf;
  Status status = layout.map(program, queueOf);
  if (!status.ok())
    return status;
  std::shared_ptr<Executable> made(new Executable(std::move(owner), program));
  for (const plan::Instruction &i : program.instructions)
    made->all.push_back({&program.operations[i.operation], nullptr, nullptr, queueOf[i.queue], i.firstWait, i.waits,
                         i.microbatch, i.microbatchStride});
  for (const plan::Wait &w : program.waits)
    made->allWaits.push_back({queueOf[w.queue], w.previousStep, w.base, w.stride});
  made->counts.assign(layout.queues.size(), 0);
  std::vector<int64_t> counts = executedByQueue(program);
  for (size_t q = 0; q < counts.size(); ++q)
    made->counts[queueOf[q]] = counts[q];
  status = made->findSlots(memory);
  if (status.ok())
    result = std::move(made);
  return status;
}

/// A receive's consumer is the computation that takes what arrived, a send's producer the one that yields it: both are
/// of the same stage and microbatch.
Status Executable::findSlots(const TransferMemory &memory) {
  struct Ring {
    TransferMemory::Region region;
    plan::Bytes slotBytes = 0;
    uint32_t size = 1;
    int64_t used = 0; // transfers of the step so far
  };
  std::map<std::pair<int32_t, Direction>, Ring> rings;
  for (const plan::Ring &r : program.rings) {
    Ring &ring = rings[{r.peer, r.direction}];
    ring.slotBytes = memory.slotBytes(r);
    ring.size = r.size;
    Status status = memory.find(program, r, ring.region);
    if (!status.ok())
      return status;
  }

  using Key = std::tuple<int32_t, Payload, Direction>; // the stage on this side, what it is, where it goes
  std::map<Key, size_t> tableOf;
  std::vector<std::pair<size_t, Ring *>> ofOperation(program.operations.size()); // transfers: table and ring
  for (size_t o = 0; o < program.operations.size(); ++o) {
    const plan::Operation &op = program.operations[o];
    if (!plan::isTransfer(op.kind))
      continue;
    size_t table = tableOf.try_emplace({op.stage, op.of, directionOf(op)}, tableOf.size()).first->second;
    ofOperation[o] = {table, &rings.at({op.peer, directionOf(op)})};
  }
  tables.resize(tableOf.size());
  for (plan::Cursor cursor(program); !cursor.done(); cursor.next()) {
    plan::Step step = cursor.at();
    if (!plan::isTransfer(step.operation->kind))
      continue;
    auto [table, ring] = ofOperation[step.instruction->operation];
    size_t microbatch = size_t(step.microbatch());
    if (tables[table].size() <= microbatch)
      tables[table].resize(microbatch + 1);
    tables[table][microbatch] = {ring->region.data + (ring->used++ % ring->size) * ring->slotBytes,
                                 memory.carried(step.operation->bytes)};
  }

  auto slots = [&](int32_t stage, Payload of, Direction direction) -> const Slot * {
    auto found = tableOf.find({stage, of, direction});
    return found == tableOf.end() ? nullptr : tables[found->second].data();
  };
  for (Item &item : all) {
    const plan::Operation &op = *item.operation;
    if (plan::isTransfer(op.kind)) {
      item.out = slots(op.stage, op.of, directionOf(op));
    } else if (plan::isCompute(op.kind) && op.kind != Kind::BackwardWeight) {
      Payload of = op.kind == Kind::Forward ? Payload::Forward : Payload::Backward;
      item.in = slots(op.stage, of, Direction::Recv);
      item.out = slots(op.stage, of, Direction::Send);
    }
  }
  return {};
}

} // namespace pipec::runtime
