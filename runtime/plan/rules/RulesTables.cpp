// Rules P10 to P16 and P43: the tables of one program, row by row. Everything is compared so that no sum can overflow.
#include "runtime/plan/Disassemble.h"
#include "runtime/plan/Limits.h"
#include "runtime/plan/Text.h"
#include "runtime/plan/rules/Rules.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace pipec::plan::rules {
namespace {

bool holds(const Program &program, int32_t stage) {
  return std::binary_search(program.stages.begin(), program.stages.end(), stage);
}

/// "the compute queue or the weights queue"
std::string queuesText(unsigned classes) {
  constexpr std::pair<QueueClass, const char *> kNames[] = {{kComputeQueue, "the compute queue"},
                                                            {kWeightsQueue, "the weights queue"},
                                                            {kUpdatesQueue, "the updates queue"},
                                                            {kCommunicator, "a communicator"}};
  std::string text;
  for (const auto &[each, name] : kNames)
    if ((classes & each) != 0)
      text += (text.empty() ? "" : " or ") + std::string(name);
  return text;
}

/// Why an operation's numbers are wrong, or null.
const char *wrongNumbers(const Operation &o) {
  if (o.cost < 0 || o.cost > limits::kTime || o.latency < 0 || o.latency > limits::kTime)
    return "a time out of range";
  for (const Bytes bytes : {o.bytes, o.activation, o.context})
    if (bytes < 0 || bytes > limits::kBytes)
      return "a size out of range";
  const bool transfer = isTransfer(o.kind);
  if (!transfer && o.latency != 0)
    return "a latency, which only transfers have";
  const unsigned memory = rowOf(o.kind).holds | rowOf(o.kind).frees;
  if (!isCommunication(o.kind) && o.bytes != 0 && (memory & kInput) == 0)
    return "a payload, which only transfers and collectives have, or an input, which only F and R have";
  if (o.activation != 0 && (memory & kActivation) == 0)
    return "an activation, which only F, R, B and BW have";
  if (o.context != 0 && (memory & kContexts) == 0)
    return "a context, which only F, R, B, W and BW have";
  return nullptr;
}

/// Why the other ends of a transfer or a collective, or what it carries, are wrong, or null.
const char *wrongEnds(const Operation &o, const Variant &variant, int32_t rank) {
  if (plan::movesSamples(o.kind)) {
    if (!variant.sharesStages())
      return "no use where each stage is on one rank";
    if (o.of != Payload::Forward && o.of != Payload::Backward)
      return "an unknown payload kind, expected an activation or a gradient";
    return o.group < 0    ? "no group, expected that of the wider stage"
           : o.peer != -1 ? "a peer, which only transfers have"
                          : nullptr;
  }
  if (o.group < -1 || (meets(o) && variant.own.empty()))
    return "a group, which only collectives have, and passes and updates of shards";
  if (!isTransfer(o.kind) && o.peer != -1)
    return "a peer, which only transfers have";
  if (isCollective(o.kind)) {
    if (o.of != Payload::Norm && o.of != Payload::Gradients && o.of != Payload::Weights && o.of != Payload::Shared)
      return "an unknown payload kind, expected a norm, gradients, weights or those of shared weights";
    if (o.kind != Kind::AllReduce && o.of == Payload::Norm)
      return "a norm, which only all-reduces carry";
    if (o.kind != Kind::AllGather && o.of == Payload::Weights)
      return "weights, which only gathers carry";
    if (o.of == Payload::Norm && o.group != -1)
      return "a group, expected a norm over all processes";
    if (o.of != Payload::Norm && o.group == -1)
      return "no group, expected those whose gradients are summed";
    return nullptr;
  }
  if (!isTransfer(o.kind))
    return o.of != Payload::None ? "a payload kind, which only transfers and collectives have" : nullptr;
  if (o.peer < 0 || size_t(o.peer) >= variant.programs.size())
    return "a peer that the plan has not";
  if (o.peer == rank)
    return "its own rank as peer";
  return o.of != Payload::Forward && o.of != Payload::Backward ? "an unknown payload kind" : nullptr;
}

} // namespace

Status queues(const Variant &variant, const Program &program) {
  const auto error = [&](size_t q, const char *what) {
    return Status::input(fmt::format("P10: rank {}: queue {} {}", program.rank, q, what));
  };
  if (program.queues.empty() || program.queues[0].kind != QueueKind::Device)
    return error(0, "must be the compute queue");
  bool weights = false, updates = false;
  for (size_t q = 0; q < program.queues.size(); ++q) {
    const Queue &queue = program.queues[q];
    if (queue.kind > QueueKind::Communicator || queue.priority > Priority::Updates)
      return error(q, "is of an unknown kind");
    if (queue.kind == QueueKind::Communicator && queue.priority != Priority::Compute)
      return error(q, "is a communicator with a priority, which only device queues have");
    if (queue.kind == QueueKind::Communicator)
      continue;
    if ((queue.priority == Priority::Compute) != (q == 0))
      return error(q, q == 0 ? "must have the priority of compute" : "is a second compute queue");
    if (queue.priority == Priority::Updates) {
      if (variant.layers.empty())
        return error(q, "is a queue for updates, which only replicas have");
      if (std::exchange(updates, true))
        return error(q, "is a second queue for updates");
    } else if (q > 0 && std::exchange(weights, true)) {
      return error(q, "is a second queue for weights");
    }
  }
  return {};
}

namespace {

/// What no two operations of a program have in common. Parts of a pass may differ in memory alone.
auto identityOf(const Operation &o) {
  const auto memory = [&](Bytes bytes) { return o.layers == 0 ? 0 : bytes; };
  return std::tuple(o.stage, o.kind, o.of, o.firstLayer, o.layers, o.begin, o.end, memory(o.bytes),
                    memory(o.activation), memory(o.context));
}

} // namespace

Status operations(const Variant &variant, const Program &program, const StageLayers &layers) {
  std::map<decltype(identityOf({})), size_t> seen;
  for (size_t i = 0; i < program.operations.size(); ++i) {
    const Operation &o = program.operations[i];
    const auto error = [&](const std::string &what) {
      return Status::input(
          fmt::format("P11: rank {}: operation {} ({} stage {}) has {}", program.rank, i, name(o.kind), o.stage, what));
    };
    if (!isKnown(o.kind))
      return error("an unknown kind");
    if (!within(o.stage, 0, variant.stages - 1) ||
        (!holds(program, o.stage) && (!plan::movesSamples(o.kind) || !holds(program, takerOf(o.stage, o.of)))))
      return error("a stage that is not on this rank");
    for (const char *wrong : {wrongNumbers(o), wrongEnds(o, variant, program.rank), wrongLayers(o, layers)})
      if (wrong)
        return error(wrong);
    if (isOfShared(o))
      if (const std::string wrong = wrongShared(o, variant, program); !wrong.empty())
        return error(wrong);
    if (const auto [at, fresh] = seen.try_emplace(identityOf(o), i); !fresh)
      return error(fmt::format("the kind and stage of operation {}", at->second));
  }
  return {};
}

Status streams(const Program &program) {
  uint64_t next = 0;
  for (size_t s = 0; s < program.step.size(); ++s) {
    const Segment &segment = program.step[s];
    if (segment.trips == 0 || segment.count == 0)
      return Status::input(fmt::format("P12: rank {}: segment {} is empty", program.rank, s));
    if (segment.first != next || segment.count > program.instructions.size() - next)
      return Status::input(fmt::format("P12: rank {}: segment {} does not follow the one before: it begins at {} of {} "
                                       "instructions with {}, expected {}",
                                       program.rank, s, segment.first, program.instructions.size(), segment.count,
                                       next));
    next += segment.count;
  }
  if (next != program.instructions.size())
    return Status::input(fmt::format("P12: rank {}: {} of {} instructions are in no segment", program.rank,
                                     program.instructions.size() - next, program.instructions.size()));
  next = 0;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction &instruction = program.instructions[i];
    if (instruction.waits == 0)
      continue;
    if (instruction.firstWait != next || instruction.waits > program.waits.size() - next)
      return Status::input(
          fmt::format("P12: rank {}: the waits of instruction {} do not follow those before: they begin "
                      "at {} of {} with {}, expected {}",
                      program.rank, i, instruction.firstWait, program.waits.size(), instruction.waits, next));
    next += instruction.waits;
  }
  if (next != program.waits.size())
    return Status::input(fmt::format("P12: rank {}: {} of {} waits are of no instruction", program.rank,
                                     program.waits.size() - next, program.waits.size()));
  return {};
}

Status instructions(const Program &program) {
  std::unordered_map<uint64_t, uint32_t> queueOf;              // of each peer and direction
  std::vector<uint32_t> known(program.operations.size(), ~0u); // of each transfer, once it is looked up
  uint32_t sums = ~0u;                                         // of collectives of a group
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction &instruction = program.instructions[i];
    const auto error = [&](const std::string &what) {
      return Status::input(fmt::format("P13: rank {}: instruction {} {}", program.rank, i, what));
    };
    if (instruction.operation >= program.operations.size())
      return error(
          fmt::format("is of operation {}, the program has {}", instruction.operation, program.operations.size()));
    if (instruction.queue >= program.queues.size())
      return error(fmt::format("is on queue {}, the program has {}", instruction.queue, program.queues.size()));
    const Operation &o = program.operations[instruction.operation];
    if (const QueueClass on = classOf(program.queues[instruction.queue]); (rowOf(o.kind).queues & on) == 0)
      return error(fmt::format("({} stage {}) is on {}, expected {}", name(o.kind), o.stage, queuesText(on),
                               queuesText(rowOf(o.kind).queues)));
    if (isCollective(o.kind) && o.group != -1) { // so all processes of a group come to them in one order
      if (sums != ~0u && sums != instruction.queue)
        return error(fmt::format("({} stage {}) is on queue {}, an earlier collective of a group on {}", name(o.kind),
                                 o.stage, instruction.queue, sums));
      sums = instruction.queue;
    }
    if (!isTransfer(o.kind))
      continue;
    if (known[instruction.operation] == instruction.queue)
      continue;
    if (const auto [at, fresh] = queueOf.try_emplace(endOf(o), instruction.queue); at->second != instruction.queue)
      return error(fmt::format("({} stage {}) is on queue {}, an earlier one with the same peer and direction on {}",
                               name(o.kind), o.stage, instruction.queue, at->second));
    known[instruction.operation] = instruction.queue;
  }
  return {};
}

Status lengths(const Variant &variant) {
  __int128 all = 0, allWaits = 0, queues = 0;
  for (const Program &program : variant.programs) {
    __int128 rank = 0, time = 0;
    std::vector<int64_t> times(variant.own.empty() ? 0 : program.operations.size()); // how often each is executed
    for (const Segment &segment : program.step) {
      rank += __int128(segment.count) * segment.trips;
      for (uint32_t i = segment.first; i < segment.first + segment.count; ++i) {
        const Operation &o = program.operations[program.instructions[i].operation];
        allWaits += __int128(program.instructions[i].waits) * segment.trips;
        time += (__int128(o.cost) + o.latency) * segment.trips;
        if (!times.empty())
          times[program.instructions[i].operation] += segment.trips;
        if (plan::isHeader(o.kind))
          i += 2; // P43: which take no time of their own, and wait for nothing
      }
    }
    if (rank > limits::kRankInstructions)
      return Status::input(fmt::format("P14: rank {} executes {} instructions a step, over the limit of {}",
                                       program.rank, rank, limits::kRankInstructions));
    if (time > limits::kTime)
      return Status::input(fmt::format("P14: the work of rank {} takes {} ps a step, over the limit of {}",
                                       program.rank, time, limits::kTime));
    all += rank * variant.shards();
    queues += __int128(program.queues.size()) * variant.shards();
    for (int32_t shard = 0; !times.empty() && shard != variant.shards(); ++shard) {
      __int128 own = time;
      for (size_t i = 0; i != times.size(); ++i)
        own += __int128(variant.own[size_t(program.rank * variant.shards() + shard)].operations[i].own()) * times[i];
      if (own > limits::kTime)
        return Status::input(fmt::format("P14: the work of rank {} shard {} takes {} ps a step, over the limit of {}",
                                         program.rank, shard, own, limits::kTime));
    }
  }
  allWaits *= variant.shards();
  if (!variant.own.empty() && queues > limits::kShardQueues)
    return Status::input(
        fmt::format("P14: the shards of all ranks have {} queues, over the limit of {}", queues, limits::kShardQueues));
  if (all > limits::kExecutedInstructions)
    return Status::input(fmt::format("P14: {} instructions are executed a step, over the limit of {}", all,
                                     limits::kExecutedInstructions));
  if (allWaits > limits::kExecutedWaits)
    return Status::input(
        fmt::format("P14: {} waits are executed a step, over the limit of {}", allWaits, limits::kExecutedWaits));
  return {};
}

Status rings(const Program &program, const Facts &facts) {
  struct Use {
    int64_t transfers = 0;
    Bytes largest = 0;
    bool ring = false;
  };
  std::unordered_map<uint64_t, Use> uses;
  for (size_t i = 0; i < program.operations.size(); ++i)
    if (const Operation &o = program.operations[i]; isTransfer(o.kind) && facts.operation[i] > 0) {
      Use &use = uses[endOf(o)];
      use.transfers += facts.operation[i];
      use.largest = std::max(use.largest, o.bytes);
    }
  const auto error = [&](const char *direction, int64_t peer, const std::string &what) {
    return Status::input(fmt::format("P15: rank {}: the ring {} {} {}", program.rank, direction, peer, what));
  };
  for (const Ring &ring : program.rings) {
    if (ring.direction > Direction::Recv)
      return error("with", ring.peer, "has an unknown direction");
    const char *direction = ring.direction == Direction::Send ? "to" : "from";
    const auto use = uses.find(endOf(ring.peer, ring.direction));
    if (use == uses.end())
      return error(direction, ring.peer, "serves no transfer");
    if (use->second.ring)
      return error(direction, ring.peer, "is there twice");
    use->second.ring = true;
    if (ring.size < 1 || ring.size > use->second.transfers)
      return error(direction, ring.peer,
                   fmt::format("has {} slots, expected 1 to {}, its transfers", ring.size, use->second.transfers));
    if (ring.slotBytes < use->second.largest || ring.slotBytes > limits::kBytes)
      return error(direction, ring.peer,
                   fmt::format("has slots of {}, its largest payload is {}", bytesText(ring.slotBytes),
                               bytesText(use->second.largest)));
  }
  for (const auto &[key, use] : uses)
    if (!use.ring)
      return error(key & 1 ? "from" : "to", int64_t(key >> 1), "is missing");
  return {};
}

Status microbatches(const Variant &variant, const Program &program, const Facts &facts) {
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction &instruction = program.instructions[i];
    const Operation &o = program.operations[instruction.operation];
    // Optimizer and collectives are about no microbatch.
    const int64_t microbatches = isCompute(o.kind) || isTransfer(o.kind) ? variant.microbatches : 1;
    const int64_t first = instruction.microbatch;
    const int64_t last = first + int64_t(instruction.microbatchStride) * (int64_t(facts.trips[i]) - 1);
    for (const int64_t microbatch : {first, last})
      if (microbatch < 0 || microbatch >= microbatches)
        return Status::input(fmt::format("P16: {}: the step has microbatches 0 to {}",
                                         describe(program.rank, o, microbatch), microbatches - 1));
  }
  return {};
}

namespace {

/// Whether two instructions of a segment are about one microbatch in some trip.
bool everMeet(const Instruction &one, const Instruction &other, int64_t trips) {
  const int64_t apart = int64_t(other.microbatch) - one.microbatch;
  const int64_t closer = int64_t(one.microbatchStride) - other.microbatchStride;
  return closer == 0 ? apart == 0 : apart % closer == 0 && apart / closer >= 0 && apart / closer < trips;
}

/// Why what follows the header of a pair in its segment is none, or null.
const char *wrongPair(const Program &program, const Instruction *header, size_t behind, int64_t trips) {
  if (behind < 2)
    return "is not followed by two instructions in its segment";
  const Instruction &first = header[1], &second = header[2];
  const Operation &pair = program.operations[header->operation];
  const Operation &f = program.operations[first.operation], &b = program.operations[second.operation];
  if (!does(f.kind, kForwardPass) || !does(b.kind, kInputGradient))
    return "is not followed by an F and a B or BW";
  if (f.stage != pair.stage)
    return "is of another stage than its F";
  if (f.layers != 0 || b.layers != 0)
    return "is followed by a part of a pass";
  if (first.waits != 0 || second.waits != 0)
    return "does not wait for all that the two behind it wait for";
  if (f.stage == b.stage && everMeet(first, second, trips))
    return "has a backward that needs its F";
  return nullptr;
}

} // namespace

Status pairs(const Program &program) {
  for (const Segment &segment : program.step)
    for (uint32_t i = segment.first, end = segment.first + segment.count; i < end; ++i) {
      const Instruction &header = program.instructions[i];
      const Operation &o = program.operations[header.operation];
      if (!plan::isHeader(o.kind))
        continue;
      if (const char *wrong = wrongPair(program, &header, end - 1 - i, segment.trips))
        return Status::input(fmt::format("P43: rank {}: instruction {} ({} stage {}) {}", program.rank, i, name(o.kind),
                                         o.stage, wrong));
    }
  return {};
}

} // namespace pipec::plan::rules
