// Numbering queues, the tables of slots (a walk of one step, in which the transfers are counted), dividing by queue,
// who is waited for.
#include "runtime/interpreter/Executable.h"

#include "runtime/plan/Evaluation.h"
#include "runtime/plan/TransferBuffers.h"
#include "runtime/plan/Unroll.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <tuple>

namespace pipec::runtime {

using plan::Direction;
using plan::Kind;
using plan::Payload;

namespace {

Direction directionOf(const plan::Operation &op) { return plan::sends(op.kind) ? Direction::Send : Direction::Recv; }

} // namespace

Status Executable::make(std::shared_ptr<const void> owner, const plan::Program &program, const CallPoint &call,
                        const Layout &layout, const TransferMemory &memory, std::shared_ptr<const Executable> &result,
                        const plan::Variant *variant) {
  std::vector<uint32_t> queueOf;
  Status status = layout.map(program, queueOf);
  return status.ok() ? make(std::move(owner), program, call, std::move(queueOf), layout, memory, result, variant)
                     : status;
}

/// What runs on a queue of an evaluation may be less than on the one it is, which is known by its number then.
Status Executable::makeEvaluation(const std::shared_ptr<const Executable> &training, const Layout &layout,
                                  const TransferMemory &memory, std::shared_ptr<const Executable> &result) {
  struct Owner {
    std::shared_ptr<const Executable> training;
    plan::Variant variant;
  };
  const auto owner = std::make_shared<Owner>(Owner{training, {}});
  const Status status = plan::evaluationOf(*training->ofVariant, owner->variant);
  return status.ok() ? make(owner, owner->variant.programs[size_t(training->program.rank)], {}, training->queueOf,
                            layout, memory, result, &owner->variant)
                     : status;
}

Status Executable::make(std::shared_ptr<const void> owner, const plan::Program &program, const CallPoint &call,
                        std::vector<uint32_t> queues, const Layout &layout, const TransferMemory &memory,
                        std::shared_ptr<const Executable> &result, const plan::Variant *variant) {
  std::shared_ptr<Executable> made(new Executable(std::move(owner), program));
  made->ofVariant = variant;
  made->queueOf = std::move(queues);
  const std::vector<uint32_t> &queueOf = made->queueOf;
  made->callPoint = call;
  if (variant && !variant->own.empty())
    made->sharded = variant;
  if (call.queue < queueOf.size())
    made->callPoint.queue = queueOf[call.queue];
  Stream &stream = made->stream;
  int inPair = 0; // so many more, which a header stands before
  for (const plan::Instruction &i : program.instructions) {
    const plan::Operation *operation = &program.operations[i.operation];
    if (plan::isHeader(operation->kind)) {
      inPair = 2;
    } else if (inPair > 0) {
      --inPair;
      made->timeless.push_back(*operation);
      made->timeless.back().cost = 0;
      operation = &made->timeless.back();
    }
    Stream::Item item{operation,   nullptr, nullptr,      queueOf[i.queue],
                      i.firstWait, i.waits, i.microbatch, i.microbatchStride};
    item.heads = plan::isHeader(operation->kind);
    item.window = plan::windowOf(program, uint32_t(&i - program.instructions.data()));
    stream.items.push_back(item);
  }
  for (const plan::Wait &w : program.waits)
    stream.waits.push_back({queueOf[w.queue], w.previousStep, w.base, w.stride});
  for (const plan::Segment &segment : program.step)
    if (segment.count > 0 && segment.trips > 0)
      stream.segments.push_back(segment);
  stream.executed = plan::executed(program);
  for (const plan::Operation &operation : program.operations)
    if (plan::does(operation.kind, plan::kRecomputation) && !std::ranges::count(stream.recomputed, operation.stage))
      stream.recomputed.push_back(operation.stage);
  for (Walk walk(stream); !walk.done(); walk.next())
    stream.microbatches = std::max(stream.microbatches, walk.microbatch() + 1);
  if (Status status = made->findSlots(memory, variant); !status.ok())
    return status;
  made->divide(layout.queues.size());
  made->findWindows();
  made->findPauses();
  result = std::move(made);
  return {};
}

/// A queue's stream is what remains of the program's without the others.
void Executable::divide(size_t queues) {
  streams.resize(queues);
  for (const plan::Segment &segment : stream.segments) {
    for (Stream &own : streams)
      own.segments.push_back({uint32_t(own.items.size()), 0, segment.trips});
    for (uint32_t i = segment.first; i < segment.first + segment.count; ++i) {
      Stream::Item item = stream.items[i];
      Stream &own = streams[item.queue];
      auto firstWait = stream.waits.begin() + item.firstWait;
      item.firstWait = uint32_t(own.waits.size());
      own.waits.insert(own.waits.end(), firstWait, firstWait + item.waits);
      own.items.push_back(item);
      ++own.segments.back().count;
      own.executed += segment.trips;
    }
    for (Stream &own : streams)
      if (own.segments.back().count == 0)
        own.segments.pop_back();
  }
}

/// Of the compute queue, which alone has windows.
void Executable::findWindows() {
  Stream &own = streams.front();
  own.piece = program.piece;
  for (Walk walk(own); !walk.done(); walk.next())
    if (walk.at().window.length > 0)
      own.windows.push_back(walk.at().window.length);
  std::sort(own.windows.rbegin(), own.windows.rend());
}

/// Who is waited for. A queue goes on from an instruction to the next without a look at anything else where that one
/// waits for nothing and nobody waits for this one.
void Executable::findPauses() {
  std::vector<std::vector<bool>> awaited(streams.size()); // of each instruction of the step
  for (size_t q = 0; q < streams.size(); ++q)
    awaited[q].resize(size_t(streams[q].executed));
  for (Walk walk(stream); !walk.done(); walk.next())
    for (uint32_t w = walk.at().firstWait; w != walk.at().firstWait + walk.at().waits; ++w) {
      const Stream::Wait &wait = stream.waits[w];
      if (int64_t count = wait.base + wait.stride * walk.trip(); count > 0)
        awaited[wait.queue][size_t(count - 1)] = true;
    }
  for (Stream::Item &item : stream.items)
    item.awaited = false;
  std::vector<size_t> counts(streams.size(), 0);
  for (Walk walk(stream); !walk.done(); walk.next()) {
    Stream::Item &item = stream.items[size_t(&walk.at() - stream.items.data())];
    item.awaited |= awaited[item.queue][counts[item.queue]++];
  }
  for (size_t q = 0; q < streams.size(); ++q) {
    Stream &own = streams[q];
    for (Stream::Item &item : own.items)
      item.pauses = false;
    Stream::Item *before = nullptr;
    size_t n = 0;
    for (Walk walk(own); !walk.done(); walk.next(), ++n) {
      Stream::Item &item = own.items[size_t(&walk.at() - own.items.data())];
      item.pauses |= awaited[q][n];
      if (before)
        before->pauses |= item.waits != 0;
      before = &item;
    }
  }
}

/// A receive's consumer is the computation that takes what arrived, a send's producer the one that yields it: both are
/// of the same stage and microbatch.
Status Executable::findSlots(const TransferMemory &memory, const plan::Variant *variant) {
  struct Ring {
    TransferMemory::Region region;
    plan::Bytes slotBytes = 0;
    uint32_t size = 1;
    int64_t used = 0;               // transfers of the step so far
    TransferMemory::Region landing; // of sends: the peer's ring, if that can be reached from here
    plan::Bytes landingBytes = 0;   // of its slots
    uint32_t landingSize = 1;
  };
  std::map<std::pair<int32_t, Direction>, Ring> rings;
  for (const plan::Ring &r : program.rings) {
    Ring &ring = rings[{r.peer, r.direction}];
    ring.slotBytes = memory.slotBytes(r);
    ring.size = r.size;
    Status status = memory.find(program, r, ring.region);
    if (!status.ok())
      return status;
    if (!variant || r.direction != Direction::Send || !memory.landing(r.peer).data)
      continue;
    ring.landing = memory.landing(r.peer);
    for (const plan::Ring &theirs : variant->programs[size_t(r.peer)].rings)
      if (theirs.peer == program.rank && theirs.direction == Direction::Recv) {
        ring.landingBytes = memory.slotBytes(theirs);
        ring.landingSize = theirs.size;
      }
    if (ring.landingBytes * ring.landingSize > ring.landing.bytes)
      return Status::check(fmt::format("rank {}: the plan's transfers to rank {} need {} bytes there, this run has "
                                       "allocated {}",
                                       program.rank, r.peer, ring.landingBytes * ring.landingSize, ring.landing.bytes));
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
  if (variant)
    for (const plan::SampleBuffer &buffer : plan::sampleBuffers(*variant, program)) {
      tableOf.try_emplace({buffer.stage, buffer.of, buffer.direction}, tableOf.size());
      tables.resize(tableOf.size());
      tables.back() = {memory.find(buffer)}; // of the one microbatch
    }
  tables.resize(tableOf.size());
  landings.resize(tableOf.size());
  for (plan::Cursor cursor(program); !cursor.done(); cursor.next()) {
    plan::Step step = cursor.at();
    if (!plan::isTransfer(step.operation->kind))
      continue;
    auto [table, ring] = ofOperation[step.instruction->operation];
    size_t microbatch = size_t(step.microbatch());
    if (tables[table].size() <= microbatch) {
      tables[table].resize(microbatch + 1);
      landings[table].resize(microbatch + 1);
    }
    const plan::Bytes bytes = memory.carried(step.operation->bytes);
    tables[table][microbatch] = {ring->region.data + (ring->used % ring->size) * ring->slotBytes, bytes};
    if (ring->landing.data)
      landings[table][microbatch] = {ring->landing.data + (ring->used % ring->landingSize) * ring->landingBytes, bytes};
    ++ring->used;
  }

  auto slotsIn = [&](const std::vector<std::vector<Slot>> &all, const Stream::Item &item, Payload of,
                     Direction direction) -> const Slot * {
    auto found = tableOf.find({item.operation->stage, of, direction});
    return found == tableOf.end() ? nullptr : all[found->second].data() + item.microbatch;
  };
  auto slots = [&](const Stream::Item &item, Payload of, Direction direction) {
    return slotsIn(tables, item, of, direction);
  };
  auto slotOf = [&](int32_t stage, Payload of, Direction direction) -> const Slot * {
    auto found = tableOf.find({stage, of, direction});
    return found == tableOf.end() ? nullptr : tables[found->second].data();
  };
  // What crosses ranks is of the part of a pass that has the stage's first or last layer.
  std::map<int32_t, int32_t> layers; // of each stage, where passes come in parts
  for (const plan::Operation &op : program.operations)
    if (plan::isCompute(op.kind) && op.layers > 0)
      layers[op.stage] = std::max(layers[op.stage], op.firstLayer + op.layers);
  const auto begins = [](const plan::Operation &op) { return op.firstLayer == 0; };
  const auto ends = [&](const plan::Operation &op) {
    return op.layers == 0 || op.firstLayer + op.layers == layers.at(op.stage);
  };
  for (Stream::Item &item : stream.items) {
    const plan::Operation &op = *item.operation;
    if (plan::isTransfer(op.kind)) {
      item.out = slots(item, op.of, directionOf(op));
      if (plan::sends(op.kind))
        item.in = slotsIn(landings, item, op.of, Direction::Send);
    } else if (plan::movesSamples(op.kind)) {
      item.in = slotOf(op.stage, op.of, Direction::Send);
      item.out = slotOf(plan::takerOf(op.stage, op.of), op.of, Direction::Recv);
    } else if (const Payload of = plan::rowOf(op.kind).gives; of != Payload::None) {
      const bool forward = of == Payload::Forward; // from the first layer of the stage to the last; else back
      if (forward ? begins(op) : ends(op))
        item.in = slots(item, of, Direction::Recv);
      if (forward ? ends(op) : begins(op))
        item.out = slots(item, of, Direction::Send);
    }
  }
  return {};
}

} // namespace pipec::runtime
