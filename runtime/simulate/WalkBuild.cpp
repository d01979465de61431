// The initial state of a walk: the queues of every process, with their instructions divided by queue.
#include "runtime/simulate/Walk.h"

#include <algorithm>
#include <tuple>

namespace pipec::simulate {

using plan::Instruction;
using plan::Kind;
using plan::Operation;
using plan::Program;

Walk::Walk(const plan::Variant &variant, const Options &options)
    : variant(variant), options(options), inOrder(startsInOrder(variant, options.launch)), shards(variant.shards()) {
  const size_t places = variant.places();
  result.places.resize(places);
  live.resize(places);
  size_t queueCount = 0, instructionCount = 0, waitCount = 0;
  for (const Program &program : variant.programs) {
    queueCount += program.queues.size();
    instructionCount += program.instructions.size();
    waitCount += program.waits.size();
  }
  if (variant.sharedPort && !options.idealLinks)
    ports.resize(places);
  queues.resize(queueCount * size_t(shards));
  entries.reserve(instructionCount * size_t(shards));
  waits.reserve(waitCount * size_t(shards));
  if (shards > 1)
    sums.resize(queues.size());
  firstQueue.push_back(0);
  for (size_t place = 0; place != places; ++place) {
    build(place);
    if (options.keepVisits)
      result.places[place].visits.reserve(size_t(plan::executed(programOf(place))));
  }
}

/// Replaces the operation's figures by those of a shard.
void Walk::setOwn(Work &work, size_t place) const {
  const plan::Program &program = programOf(place);
  const plan::OwnCost &own = variant.own[place].operations[size_t(work.operation - program.operations.data())];
  if (plan::meets(*work.operation)) {
    work.cost = own.before;
    work.latency = own.after;
    work.link = kSums;
  } else {
    work.cost += own.own();
  }
}

/// Makes the queues of a process, with its instructions divided by queue.
void Walk::build(size_t place) {
  const Program &program = programOf(place);
  const auto rank = int32_t(place / size_t(shards)), shard = int32_t(place % size_t(shards));
  const uint32_t base = firstQueue.back(), firstWork = uint32_t(works.size());
  firstQueue.push_back(base + uint32_t(program.queues.size()));
  // One link per directed pair of processes. Ideal links never queue: each stage and payload has a link of its own.
  for (const Operation &operation : program.operations) {
    works.push_back({&operation, operation.cost, operation.latency, kNone, operation.kind});
    if (shards > 1 && !plan::isCommunication(operation.kind))
      setOwn(works.back(), place);
    if (plan::isCollective(operation.kind)) {
      works.back().link = collectiveOf.try_emplace(operation.group, uint32_t(collectives.size())).first->second;
      if (works.back().link == collectives.size())
        collectives.emplace_back().members = operation.group == -1 ? variant.places() : 0;
    }
    if (!plan::isTransfer(operation.kind))
      continue;
    bool sends = plan::sends(operation.kind);
    std::array<int32_t, 4> key = {rank * shards + shard, operation.peer * shards + shard, 0, 0};
    if (!sends)
      std::swap(key[0], key[1]);
    if (options.idealLinks) {
      key[2] = int32_t(operation.of);
      key[3] = sends                                    ? operation.stage
               : operation.of == plan::Payload::Forward ? operation.stage - 1
                                                        : operation.stage + 1;
    }
    works.back().link = linkIndex.try_emplace(key, uint32_t(linkIndex.size())).first->second;
  }
  links.resize(linkIndex.size());

  std::vector<std::vector<uint32_t>> own(program.queues.size()); // instructions
  std::vector<std::vector<uint32_t>> segmentEnd(
      program.queues.size()); // and where the instructions of each segment end
  for (const plan::Segment &segment : program.step) {
    for (uint32_t i = segment.first; i != segment.first + segment.count && segment.trips != 0; ++i)
      own[program.instructions[i].queue].push_back(i);
    for (size_t q = 0; q != own.size(); ++q)
      segmentEnd[q].push_back(uint32_t(own[q].size()));
  }
  // By instruction: ends before it in its segment.
  std::vector<uint32_t> before;
  std::vector<std::pair<int64_t, int64_t>> endsOf; // by segment: ends before its first trip, ends per trip
  if (inOrder) {
    before.resize(program.instructions.size());
    int64_t ends = 0;
    for (const plan::Segment &segment : program.step) {
      uint32_t inTrip = 0;
      for (uint32_t i = segment.first; i != segment.first + segment.count; ++i) {
        before[i] = inTrip;
        inTrip += plan::isCommunication(program.operations[program.instructions[i].operation].kind);
      }
      endsOf.emplace_back(ends, inTrip);
      ends += int64_t(inTrip) * segment.trips;
    }
    launched.emplace_back().perStep = ends;
  }
  std::vector<plan::Window> windowOf; // by instruction
  if (options.pieces || options.resume) {
    windowOf.resize(program.instructions.size());
    for (const plan::Window &window : program.windows)
      windowOf[window.instruction] = window;
  }
  Device &device = devices.emplace_back();
  for (size_t q = 0; q != program.queues.size(); ++q) {
    QueueState &queue = queues[base + q];
    queue.place = int32_t(place);
    queue.index = uint32_t(q);
    queue.free = options.starts.empty() ? 0 : options.starts[place];
    queue.firstLoop = uint32_t(loops.size());
    uint32_t entry = uint32_t(entries.size()), from = 0;
    int64_t issued = 0; // of all queues, in the segments before
    for (size_t s = 0; s != program.step.size(); from = segmentEnd[q][s++]) {
      const plan::Segment &segment = program.step[s];
      if (segmentEnd[q][s] != from) {
        loops.push_back({entry + from, entry + segmentEnd[q][s], segment.trips, issued - segment.first,
                         int64_t(segment.count), 0, 0});
        queue.perStep += int64_t(segmentEnd[q][s] - from) * segment.trips;
        if (inOrder)
          std::tie(loops.back().ends, loops.back().endsPerTrip) = endsOf[s];
      }
      issued += int64_t(segment.count) * segment.trips;
    }
    queue.endLoop = uint32_t(loops.size());
    Work::InPair inPair = Work::InPair::No; // role of the next instruction
    for (uint32_t i : own[q]) {
      const Instruction &instruction = program.instructions[i];
      uint32_t at = firstWork + instruction.operation;
      if (inPair != Work::InPair::No) {
        works.push_back(works[at]);
        works.back().inPair = inPair;
        inPair = inPair == Work::InPair::First ? Work::InPair::Second : Work::InPair::No;
        at = uint32_t(works.size() - 1);
      } else if (plan::isHeader(works[at].kind)) {
        inPair = Work::InPair::First;
      }
      const Work &work = works[at];
      entries.push_back({i, at, uint32_t(waits.size()), instruction.waits});
      if (!windowOf.empty())
        windows.push_back(windowOf[i]);
      if (inOrder)
        endsBefore.push_back(before[i]);
      for (uint32_t w = instruction.firstWait; w != instruction.firstWait + instruction.waits; ++w) {
        const plan::Wait &wait = program.waits[w];
        waits.push_back({wait.base, int32_t(wait.stride), base + wait.queue, wait.previousStep});
      }
      if (plan::isCollective(work.kind)) {
        Collective &collective = collectives[work.link];
        if (collective.queues.empty() || collective.queues.back() != base + q)
          collective.queues.push_back(uint32_t(base + q));
        if (work.operation->group != -1) // P44: its members are the ranks that have it
          collective.members = collective.queues.size();
      }
      if (plan::isTransfer(work.kind)) {
        Link &link = links[work.link];
        (plan::sends(work.kind) ? link.send : link.recv).queue = uint32_t(base + q);
      }
    }
    if (queue.firstLoop != queue.endLoop)
      enter(queue, queue.firstLoop);
    if (program.queues[q].kind == plan::QueueKind::Device)
      device.queues.push_back(uint32_t(base + q));
  }
  std::sort(device.queues.begin(), device.queues.end(), [&](uint32_t a, uint32_t b) {
    return std::pair(plan::urgencyOf(program.queues[queues[a].index].priority), a) <
           std::pair(plan::urgencyOf(program.queues[queues[b].index].priority), b);
  });
  if (device.queues.size() == 1)
    device.queues.clear();
  for (uint32_t q : device.queues)
    queues[q].shares = true;
}

} // namespace pipec::simulate
