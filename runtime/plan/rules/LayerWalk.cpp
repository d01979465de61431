#include "runtime/plan/rules/LayerWalk.h"

#include "runtime/plan/Disassemble.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace pipec::plan {

LayerWalk::Left::Left(size_t count) : next(count + 1) { std::iota(next.begin(), next.end(), 0); }

uint32_t LayerWalk::Left::from(uint32_t at) {
  while (next[at] != at)
    at = next[at] = next[next[at]];
  return at;
}

LayerWalk::LayerWalk(const Program &program, const rules::Facts &facts, const StageLayers &layers)
    : program(program), facts(facts), layers(layers), lines(program.queues.size(), kNone),
      hasRun(program.operations.size()), withoutForward(0) {
  size_t count = 0;
  for (const int32_t stage : program.stages) {
    first.push_back(count);
    count += size_t(layers.count(stage));
  }
  all.reserve(count);
  for (const int32_t stage : program.stages)
    for (int32_t layer = 0; layer != layers.count(stage); ++layer) {
      const Layer &row = layers.at(stage, layer);
      Own &own = all.emplace_back();
      own.exchanged = row.gradients > 0;
      own.sharded = row.sharded;
    }
  withoutForward = Left(count);
  findLines();
  findPlaces();
}

void LayerWalk::findLines() {
  Line next = kCompute;
  const auto add = [&](uint32_t queue) {
    if (lines[queue] != kNone || next == kLines)
      return;
    queues[next] = queue;
    lines[queue] = next++;
  };
  add(0);
  for (uint32_t q = 1; q < program.queues.size(); ++q)
    if (classOf(program.queues[q]) == kUpdatesQueue)
      add(q); // P10: the only one
  for (const Instruction &instruction : program.instructions)
    if (isCollective(program.operations[instruction.operation].kind))
      add(instruction.queue); // P13, P38: one of groups and one norm
  // At the step's start a queue knows what all its waits of the step before have shown it.
  for (size_t i = 0; i != program.instructions.size(); ++i) {
    const Instruction &instruction = program.instructions[i];
    const Line own = lines[instruction.queue];
    if (own == kNone)
      continue;
    for (uint32_t w = instruction.firstWait; w != instruction.firstWait + instruction.waits; ++w) {
      const Wait &wait = program.waits[w];
      if (const Line line = lines[wait.queue]; line != kNone && !wait.previousStep)
        known[own][line].previous =
            std::max({known[own][line].previous, wait.base, wait.base + wait.stride * (int64_t(facts.trips[i]) - 1)});
    }
  }
}

size_t LayerWalk::firstOf(int32_t stage) const {
  const auto at = std::lower_bound(program.stages.begin(), program.stages.end(), stage);
  return first[size_t(at - program.stages.begin())];
}

LayerWalk::Layers LayerWalk::of(const Operation &o) {
  const StageLayers::Range range = layers.of(o);
  const auto begin = all.begin() + ptrdiff_t(firstOf(o.stage));
  return {begin + range.first, begin + range.end};
}

/// Where collectives, updates and last passes stand.
void LayerWalk::findPlaces() {
  std::vector<Place> last(program.operations.size());
  std::array<uint32_t, kLines> issued{};
  for (Cursor cursor(program); !cursor.done(); cursor.next())
    if (const Instruction &instruction = *cursor.at().instruction; lines[instruction.queue] != kNone)
      last[instruction.operation] = {lines[instruction.queue], ++issued[lines[instruction.queue]]};
  std::vector<uint32_t> makers; // passes that add to gradients
  for (uint32_t i = 0; i != program.operations.size(); ++i) {
    const Operation &o = program.operations[i];
    if (facts.operation[i] == 0)
      continue;
    if (does(o.kind, kWeightGradient))
      makers.push_back(i);
    noteCrossing(o, last[i]);
    if (plan::movesSamples(o.kind) || isOfShared(o))
      continue;
    if (isCollective(o.kind) && o.of == Payload::Norm)
      norm = last[i];
    else if (plan::sums(o.kind))
      lastSum = std::max(lastSum, last[i]);
    if (does(o.kind, kUpdate) || (isCollective(o.kind) && o.of != Payload::Norm))
      for (auto [own, end] = of(o); own != end; ++own) {
        if (does(o.kind, kUpdate))
          own->update = last[i];
        else if (!plan::sums(o.kind))
          own->gather = last[i];
        else
          own->sum = std::max(own->sum, last[i]);
        own->scattered |= o.kind == Kind::ReduceScatter;
      }
  }
  // The last to run first: what it has is settled.
  std::sort(makers.begin(), makers.end(), [&](uint32_t one, uint32_t other) { return last[other] < last[one]; });
  Left left(all.size());
  for (const uint32_t i : makers)
    notePass(program.operations[i], last[i], left);
}

void LayerWalk::noteCrossing(const Operation &o, Place last) {
  if (plan::movesSamples(o.kind))
    crossings[{o.stage, o.of}].reshard = last;
  else if (const Payload gives = rowOf(o.kind).gives; gives != Payload::None)
    crossings[{o.stage, gives}].made = std::max(crossings[{o.stage, gives}].made, last);
}

void LayerWalk::notePass(const Operation &o, Place last, Left &left) {
  lastMade = std::max(lastMade, last);
  const auto [begin, end] = of(o);
  for (auto i = uint32_t(begin - all.begin()); (i = left.from(i)) < uint32_t(end - all.begin()); left.take(i)) {
    all[i].made = last;
    if (all[i].exchanged && all[i].sum.line == kNone)
      lastAlone = std::max(lastAlone, last);
  }
}

void LayerWalk::meetWaits(const Now &now) {
  const Instruction &instruction = *now.step.instruction;
  for (uint32_t w = instruction.firstWait; w != instruction.firstWait + instruction.waits; ++w) {
    const Wait &wait = program.waits[w];
    if (lines[wait.queue] == kNone)
      continue;
    Known &own = known[now.line][lines[wait.queue]];
    int64_t &of = wait.previousStep ? own.previous : own.now;
    of = std::max(of, wait.base + wait.stride * now.step.trip);
  }
}

/// Whether an instruction of this step must have completed.
bool LayerWalk::knows(const Now &now, Place place) const {
  if (place.line == kNone)
    return true;
  return place.line == now.line ? place.place < now.place : place.place <= known[now.line][place.line].now;
}

/// Whether an instruction of the step before must have completed.
bool LayerWalk::knowsBefore(const Now &now, Place place) const {
  if (place.line == kNone || place.line == now.line)
    return true;
  const Known &its = known[now.line][place.line];
  return (its.now > 0 ? facts.queue[queues[place.line]] + its.now : its.previous) >= place.place;
}

std::string LayerWalk::text(const Now &now) const {
  return describe(program.rank, *now.step.operation, now.step.microbatch());
}

/// P39: the norm is that of the sums, and of gradients that one rank has alone.
Status LayerWalk::normInput(const Now &now) {
  if (!knows(now, lastSum))
    return Status::check(fmt::format("P39: {} does not wait for the last sum of its rank's gradients", text(now)));
  if (!knows(now, lastSum.line == kNone ? lastMade : lastAlone))
    return Status::check(fmt::format("P39: {} does not wait for the last backward of its rank", text(now)));
  return {};
}

Status LayerWalk::sumInput(const Now &now) {
  for (auto [own, end] = of(*now.step.operation); own != end; ++own)
    if (own->exchanged && !knows(now, own->made))
      return Status::check(fmt::format("P48: {} does not wait for the last backward of what it sums", text(now)));
  return {};
}

Status LayerWalk::gatherInput(const Now &now) {
  for (auto [own, end] = of(*now.step.operation); own != end; ++own) {
    if (!own->exchanged)
      continue;
    if (!knows(now, own->sum))
      return Status::check(fmt::format("P49: {} comes before the reduce-scatter", text(now)));
    if (own->sharded && !knows(now, own->update))
      return Status::check(fmt::format("P49: {} does not wait for the update of its layers", text(now)));
  }
  return {};
}

Status LayerWalk::updateInput(const Now &now) {
  for (auto [own, end] = of(*now.step.operation); own != end; ++own) {
    if (!own->exchanged)
      continue;
    if (!knows(now, own->scattered && !own->sharded ? own->gather : own->sum))
      return Status::check(fmt::format("P49: {} does not wait for the sum of its gradients", text(now)));
    if (own->sum.line == kNone && !knows(now, own->made)) // a rank has them alone (P47)
      return Status::check(fmt::format("P49: {} does not wait for the last backward of its layers", text(now)));
    if (!knows(now, norm))
      return Status::check(fmt::format("P49: {} does not wait for the norm", text(now)));
  }
  return {};
}

/// Of the first F of each operation; later ones of the same layers come later on the same queue.
Status LayerWalk::forwardInput(const Now &now) {
  const Operation &o = *now.step.operation;
  const auto [begin, end] = of(o);
  const auto stage = uint32_t(firstOf(o.stage));
  for (auto i = uint32_t(begin - all.begin()); (i = withoutForward.from(i)) < uint32_t(end - all.begin());
       withoutForward.take(i)) {
    const Place &needed = all[i].sharded ? all[i].gather : all[i].update;
    if (all[i].exchanged && !knowsBefore(now, needed))
      return Status::check(fmt::format("P50: {} does not wait for the {} of layer {} in the step before", text(now),
                                       all[i].sharded ? "gather" : "update", i - stage));
  }
  return {};
}

Status LayerWalk::reshardInput(const Now &now) {
  const Operation &o = *now.step.operation;
  if (!knows(now, crossings[{o.stage, o.of}].made))
    return Status::check(fmt::format("P57: {} does not wait for the pass whose result changes ranks", text(now)));
  if (!knowsBefore(now, crossings[{takerOf(o.stage, o.of), o.of}].made))
    return Status::check(
        fmt::format("P57: {} does not wait until what it brought in the step before is used up", text(now)));
  return {};
}

Status LayerWalk::resharded(const Now &now) {
  const Operation &o = *now.step.operation;
  const Payload gives = rowOf(o.kind).gives; // and takes the same from the neighbour on the other side
  const auto input = crossings.find({giverOf(o.stage, gives), gives});
  if (input != crossings.end() && !knows(now, input->second.reshard))
    return Status::check(fmt::format("P57: {} does not wait for its input to change ranks", text(now)));
  if (!knowsBefore(now, crossings[{o.stage, gives}].reshard))
    return Status::check(
        fmt::format("P57: {} does not wait until what it made in the step before has changed ranks", text(now)));
  return {};
}

Status LayerWalk::visit(const Now &now) {
  const Operation &o = *now.step.operation;
  if (isOfShared(o))
    return {}; // P60
  if (plan::movesSamples(o.kind))
    return reshardInput(now);
  if (does(o.kind, kUpdate))
    return updateInput(now);
  if (isCollective(o.kind))
    return o.of == Payload::Norm ? normInput(now) : plan::sums(o.kind) ? sumInput(now) : gatherInput(now);
  if (rowOf(o.kind).gives != Payload::None)
    if (Status status = resharded(now); !status.ok())
      return status;
  if (!does(o.kind, kForwardPass) || hasRun[now.step.instruction->operation])
    return {};
  hasRun[now.step.instruction->operation] = true;
  return forwardInput(now);
}

Status LayerWalk::run() {
  std::array<uint32_t, kLines> issued{};
  for (Cursor cursor(program); !cursor.done(); cursor.next()) {
    const Step step = cursor.at();
    const Line line = lines[step.instruction->queue];
    if (line == kNone)
      continue;
    const Now now{step, line, ++issued[line]};
    meetWaits(now);
    if (Status status = visit(now); !status.ok())
      return status;
  }
  return {};
}

} // namespace pipec::plan
