// The walk itself: who is visited, what its queue knows, and rule P25.
#include "runtime/plan/rules/RankWalk.h"

#include "runtime/plan/Disassemble.h"

#include <algorithm>
#include <fmt/format.h>
#include <unordered_map>

namespace pipec::plan {

RankWalk::RankWalk(const Variant &variant, const Program &program, const rules::Facts &facts, const StageLayers &layers)
    : variant(variant), program(program), facts(facts), layers(layers), stages(program.stages.size()),
      stageOfOperation(program.operations.size()), marks(program.operations.size()),
      computeKnows(program.queues.size()), knowsCompute(program.queues.size()), issued(program.queues.size()),
      slots(program.rings.size()), slotsOf(program.operations.size(), kNone) {
  initialize();
}

void RankWalk::initialize() {
  for (uint32_t q = 1; q < program.queues.size(); ++q)
    if (classOf(program.queues[q]) == kWeightsQueue)
      weightsQueue = q;
  for (size_t i = 0; i < stages.size(); ++i) {
    stages[i].before = local(variant.before(program.stages[i]));
    stages[i].after = local(variant.after(program.stages[i]));
  }
  if (!layers.empty())
    wholes.resize(program.operations.size());
  std::unordered_map<uint64_t, uint32_t> ringOf;
  for (uint32_t r = 0; r < program.rings.size(); ++r)
    ringOf[rules::endOf(program.rings[r].peer, program.rings[r].direction)] = r;
  for (uint32_t i = 0; i < program.operations.size(); ++i) {
    const Operation &o = program.operations[i];
    stageOfOperation[i] = local(o.stage);
    if (facts.operation[i] == 0 || plan::movesSamples(o.kind)) // P57
      continue;
    Stage &stage = *stageOfOperation[i];
    if (isCompute(o.kind)) {
      uint32_t &own = stage.operations[size_t(o.kind)];
      own = std::min(own, i);
      stage.due[counterOf(o.kind)] += facts.operation[i];
      if (own == i)
        marks[i].resize(size_t(variant.microbatches));
      if (!layers.empty())
        wholes[own].holds = std::max(wholes[own].holds, bytesOf(o, rowOf(o.kind).holds)),
        wholes[own].frees = std::max(wholes[own].frees, bytesOf(o, rowOf(o.kind).frees));
    }
    if (!isTransfer(o.kind))
      continue;
    marks[i].resize(size_t(variant.microbatches));
    (plan::sends(o.kind) ? stage.sends : stage.recvs)[size_t(o.of)] = i;
    slotsOf[i] = ringOf.at(rules::endOf(o));
    slots[slotsOf[i]].transfers += facts.operation[i];
  }
  for (size_t r = 0; r < slots.size(); ++r) {
    slots[r].size = program.rings[r].size;
    slots[r].place.resize(size_t(slots[r].transfers));
    slots[r].level.resize(size_t(slots[r].size));
    if (program.rings[r].direction == Direction::Recv)
      slots[r].user.resize(size_t(slots[r].transfers));
  }
  // At the step's start a queue knows what all its waits of the step before have shown it.
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction &instruction = program.instructions[i];
    const Kind kind = program.operations[instruction.operation].kind;
    if (isTransfer(kind))
      slots[slotsOf[instruction.operation]].queue = instruction.queue;
    else if (isCollective(kind) && !isOfShared(program.operations[instruction.operation]))
      reduceOf(program.operations[instruction.operation]).queue = instruction.queue;
    for (uint32_t w = 0; w < instruction.waits; ++w) {
      const Wait &wait = program.waits[instruction.firstWait + w];
      const int64_t last = wait.base + wait.stride * (int64_t(facts.trips[i]) - 1);
      if (wait.previousStep)
        continue;
      if (instruction.queue == 0)
        computeKnows[wait.queue].previous = std::max({computeKnows[wait.queue].previous, wait.base, last});
      else if (wait.queue == 0)
        knowsCompute[instruction.queue].previous =
            std::max({knowsCompute[instruction.queue].previous, wait.base, last});
    }
  }
}

RankWalk::Stage *RankWalk::local(int32_t stage) {
  const auto at = std::lower_bound(program.stages.begin(), program.stages.end(), stage);
  return at == program.stages.end() || *at != stage ? nullptr : &stages[size_t(at - program.stages.begin())];
}

std::string RankWalk::text(const Now &now) const { return describe(program.rank, *now.step.operation, now.microbatch); }

int64_t RankWalk::level(const Known &known, uint32_t queue) const {
  // One completion of this step shows that the step before is over on that queue.
  return known.now > 0 ? facts.queue[queue] + known.now : known.previous;
}

void RankWalk::meetWaits(const Now &now) {
  const Instruction &instruction = *now.step.instruction;
  for (uint32_t w = 0; w < instruction.waits; ++w) {
    const Wait &wait = program.waits[instruction.firstWait + w];
    const int64_t count = wait.base + wait.stride * now.step.trip;
    if (now.queue != 0 && wait.queue != 0)
      continue; // no rule asks what other queues know of each other
    Known &known = now.queue == 0 ? computeKnows[wait.queue] : knowsCompute[now.queue];
    int64_t &of = wait.previousStep ? known.previous : known.now;
    of = std::max(of, count);
  }
}

/// By kind, those that do some of its work: B, W and BW, what one has done the other may not do again.
static constexpr std::array<KindList, kKinds> kRivals = [] {
  std::array<KindList, kKinds> rivals{};
  for (const KindRow &own : kKindTable)
    rivals[size_t(own.kind)] =
        kindsThat([&](const KindRow &row) { return isCompute(row.kind) && (row.does & own.does) != 0; });
  return rivals;
}();

/// P25: each piece of work is done once.
Status RankWalk::once(const Now &now) {
  const Operation &o = *now.step.operation;
  bool before = false;
  if (isTransfer(o.kind)) {
    const uint32_t noted = mark(now.step.instruction->operation, now);
    before = plan::sends(o.kind) ? noted == kSent : noted != 0;
  } else if (isCompute(o.kind)) {
    for (const Kind other : kRivals[size_t(o.kind)])
      if (const uint32_t rival = stageOf(now).of(other); rival != kNone) {
        before |= mark(rival, now) != 0;
        if (!begun.empty() && (o.layers == 0 || other != o.kind)) // its own other parts may have run
          before |= begun.contains(beganAs(rival, now));
      }
  }
  return before ? Status::check(fmt::format("P25: {} is executed twice", text(now))) : Status{};
}

Status RankWalk::visit(Now &now) {
  if (Status status = once(now); !status.ok())
    return status;
  if (now.step.operation->layers != 0 && isCompute(now.step.operation->kind))
    if (Status status = partOrder(now); !status.ok())
      return status;
  const Kind kind = now.step.operation->kind;
  Status (RankWalk::*rules[2])(const Now &) = {nullptr, nullptr}; // P42 comes first: the others note what has run
  if (does(kind, kForwardPass)) {
    rules[0] = &RankWalk::sliceOrder;
    rules[1] = &RankWalk::forwardInput;
  } else if (does(kind, kInputGradient)) {
    rules[0] = &RankWalk::sliceOrder;
    rules[1] = &RankWalk::backwardInput;
  } else if (isCompute(kind)) {
    rules[0] = &RankWalk::passInput;
  } else if ((does(kind, kUpdate) || isCollective(kind)) && !layers.empty()) {
    return {}; // LayerWalk
  } else if (does(kind, kUpdate)) {
    rules[0] = &RankWalk::optimizerInput;
    rules[1] = &RankWalk::reduced;
  } else if (isOfShared(*now.step.operation)) {
    return {}; // P60
  } else if (isCollective(kind)) {
    rules[0] = &RankWalk::reduceInput;
  } else if (plan::sends(kind)) {
    rules[0] = &RankWalk::sendInput;
    rules[1] = &RankWalk::sendSlot;
  } else if (plan::receives(kind)) {
    rules[0] = &RankWalk::recvSlot;
  } // the header of a pair: its waits are met, and the two behind it have none of their own
  for (const auto rule : rules)
    if (rule)
      if (Status status = (this->*rule)(now); !status.ok())
        return status;
  return {};
}

Status RankWalk::run() {
  for (Cursor cursor(program); !cursor.done(); cursor.next()) {
    const Step step = cursor.at();
    const uint32_t queue = step.instruction->queue;
    Now now{step, queue, step.microbatch(), uint32_t(++issued[queue])};
    meetWaits(now);
    if (queue == 0 && weightsQueue != kNone)
      memory.know(computeKnows[weightsQueue].now);
    if (Status status = visit(now); !status.ok())
      return status;
  }
  for (const auto rule : {&RankWalk::slotsAcrossSteps, &RankWalk::deferredAllDone, &RankWalk::peak})
    if (Status status = (this->*rule)(); !status.ok())
      return status;
  return {};
}

} // namespace pipec::plan
