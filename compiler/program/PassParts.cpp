#include "compiler/program/PassParts.h"

#include <algorithm>
#include <utility>

namespace pipec {

void PassParts::findEnds() {
  std::map<int32_t, bool> begun;
  int32_t weights = 0;
  for (uint32_t i = 0; i != program.instructions.size(); ++i) {
    const plan::Operation &operation = program.of(program.instructions[i]);
    if (plan::does(operation.kind, plan::kForwardPass) && !std::exchange(begun[operation.stage], true))
      firstForward[operation.stage] = i;
    if (plan::does(operation.kind, plan::kWeightGradient))
      lastBackward[operation.stage] = i;
    weights += operation.kind == plan::Kind::BackwardWeight;
  }
  firstOfTail = weights - tail; // its number among all W
  for (uint32_t i = 0, n = 0; i != program.instructions.size(); ++i)
    if (const Instruction &own = program.instructions[i];
        program.kind(own) == plan::Kind::BackwardWeight && int32_t(n++) >= firstOfTail)
      ofTail[{program.of(own).stage, own.microbatch}] = i;
}

uint32_t PassParts::add(const plan::Operation &operation, uint32_t place, int32_t microbatch, plan::Bytes yields) {
  const auto key = std::tuple(operation.kind, operation.of, operation.stage, operation.firstLayer, operation.layers,
                              operation.begin, operation.end, operation.activation, operation.context, yields);
  const auto [known, isNew] = operations.try_emplace(key, uint32_t(program.operations.size()));
  if (isNew) {
    program.operations.push_back(operation);
    program.yields.push_back(yields);
  }
  Instruction made;
  made.operation = known->second;
  made.microbatch = microbatch;
  made.queue = program.queueFor(operation);
  made.place = place;
  nodes.push_back({made, {}, {}});
  return uint32_t(nodes.size()) - 1;
}

plan::Time PassParts::timeOf(plan::Kind kind, int32_t stage, int32_t first, int32_t last) const {
  plan::Time time = 0;
  for (int32_t layer = first; layer != last; ++layer) {
    const schedule::ExchangedLayer &own = replicas.layers[size_t(stage)][size_t(layer)];
    time += kind == plan::Kind::Forward          ? own.forward
            : kind == plan::Kind::BackwardWeight ? own.backwardWeight
                                                 : own.backward;
  }
  return time;
}

uint32_t PassParts::addPart(uint32_t whole, int32_t first, int32_t last, bool runsFirst, bool runsLast) {
  const Instruction from = program.instructions[whole]; // a copy: operations grow
  plan::Operation part = program.operations[from.operation];
  const plan::Bytes yields = program.yields[from.operation];
  const plan::KindRow &row = plan::rowOf(part.kind);
  part.firstLayer = first;
  part.layers = last - first;
  part.cost = timeOf(part.kind, part.stage, first, last);
  const bool takes = (row.holds & (plan::kActivation | plan::kContext)) != 0;
  if (takes ? !runsFirst : !runsLast)
    part.activation = part.context = 0;
  if (!runsFirst)
    part.bytes = 0;
  const uint32_t made = add(part, from.place, from.microbatch, runsLast ? yields : -1);
  note(part.kind, part.stage, first, last, made);
  return made;
}

void PassParts::note(plan::Kind kind, int32_t stage, int32_t first, int32_t last, uint32_t node) {
  if (plan::does(kind, plan::kWeightGradient))
    for (std::vector<uint32_t> &own = makers[stage]; first != last; ++first) {
      own.resize(size_t(layerCount(stage)));
      own[size_t(first)] = node;
    }
  if (plan::isCompute(kind))
    lastPass = node;
}

void PassParts::keep(uint32_t i) {
  const plan::Operation &operation = program.of(program.instructions[i]);
  nodes.push_back({program.instructions[i], {}, {}});
  note(operation.kind, operation.stage, 0, layerCount(operation.stage), uint32_t(nodes.size()) - 1);
}

void PassParts::run() {
  findEnds();
  int32_t weights = 0;
  bool inPair = false; // what comes next
  uint32_t pairEnd = 0;
  for (uint32_t i = 0; i != program.instructions.size(); ++i) {
    const plan::Operation &operation = program.of(program.instructions[i]);
    const int32_t stage = operation.stage;
    const plan::Kind kind = operation.kind;
    if (plan::isHeader(kind)) {
      inPair = true;
      pairEnd = i + 2;
    }
    if (kind == plan::Kind::Optimizer || plan::isCollective(kind))
      continue; // those of the exchange take its place
    if (inPair || !plan::isCompute(kind)) {
      keep(i);
      inPair = inPair && i != pairEnd;
    } else if (kind == plan::Kind::BackwardWeight && weights++ >= firstOfTail) {
      fillSlot(operation.cost);
    } else if (firstForward[stage] == i && cuts.at(stage).forward.size() > 2) {
      const Cuts &at = cuts.at(stage).forward;
      for (size_t n = 0; n + 1 != at.size(); ++n)
        parts[stage].push_back(addPart(i, at[n], at[n + 1], n == 0, n + 2 == at.size()));
    } else if (lastBackward[stage] == i && cuts.at(stage).backward.size() > 2) {
      cutBackward(i, kind, cuts.at(stage).backward);
    } else {
      keep(i);
      if (kind == plan::Kind::BackwardInput)
        if (const auto found = ofTail.find({stage, program.instructions[i].microbatch}); found != ofTail.end())
          open.push_back({found->second, stage, 0});
      if (firstForward[stage] == i)
        parts[stage].push_back(uint32_t(nodes.size()) - 1);
    }
  }
  while (!open.empty())
    addNext();
}

void PassParts::cutBackward(uint32_t i, plan::Kind kind, const Cuts &at) {
  const size_t count = at.size() - 1;
  for (size_t n = 0; n != count; ++n) {
    const size_t part = kind == plan::Kind::BackwardWeight ? n : count - 1 - n;
    addPart(i, at[part], at[part + 1], n == 0, n + 1 == count);
  }
}

void PassParts::fillSlot(plan::Time most) {
  for (plan::Time filled = 0; filled < most && !open.empty();)
    filled += addNext();
}
plan::Time PassParts::addNext() {
  const auto before = [&](const Open &one, const Open &other) {
    return std::tuple(one.stage, one.next) < std::tuple(other.stage, other.next);
  };
  const auto at = std::min_element(open.begin(), open.end(), before);
  const Cuts &groups = cuts.at(at->stage).backward;
  const bool first = at->next == 0, last = at->next + 2 == groups.size();
  const uint32_t made = addPart(at->whole, groups[at->next], groups[at->next + 1], first, last);
  ++at->next;
  if (last)
    open.erase(at);
  return program.operations[nodes[made].instruction.operation].cost;
}

} // namespace pipec
