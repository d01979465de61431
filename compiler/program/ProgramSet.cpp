#include "compiler/program/ProgramSet.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <set>
#include <tuple>

using namespace mlir;

namespace pipec {

using namespace pipe;

//===----------------------------------------------------------------------===//
// One program
//===----------------------------------------------------------------------===//

std::string Program::nameOf(uint32_t instruction) const {
  const plan::Operation &operation = of(instructions[instruction]);
  const bool once = !plan::isCompute(operation.kind) && !plan::isTransfer(operation.kind);
  return pipec::nameOf(operation, once ? std::nullopt : std::optional(instructions[instruction].microbatch));
}

uint32_t Program::indexOf(const plan::Operation &operation, plan::Bytes yielded) {
  const uint64_t key =
      uint64_t(uint32_t(operation.stage)) << 16 | uint64_t(operation.kind) << 8 | uint64_t(operation.of);
  auto [it, isNew] = index.try_emplace(key, uint32_t(operations.size()));
  if (!isNew && operations[it->second] == operation && yields[it->second] == yielded)
    return it->second;
  if (!isNew && (operation.layers != 0 || operations[it->second].layers != 0)) // parts and whole passes alternate
    for (uint32_t i = 0; i != operations.size(); ++i)
      if (operations[i] == operation && yields[i] == yielded)
        return it->second = i;
  it->second = uint32_t(operations.size());
  operations.push_back(operation);
  yields.push_back(yielded);
  return it->second;
}

uint32_t Program::queueFor(const plan::Operation &operation) {
  QueueKey key;
  if (plan::isCommunication(operation.kind)) {
    key.queue = {plan::QueueKind::Communicator, plan::Priority::Compute};
    key.ends = queueKey(communicator, operation.peer, plan::sends(operation.kind));
    // 3 tells a group from a peer (queueKey gives 0 to 2); 4: whatever the group, all of a rank go in one order.
    if (plan::isExchange(operation))
      key.ends = {-1, 4};
    else if (plan::isCollective(operation.kind) && communicator != Communicator::Shared)
      key.ends = {operation.group, 3};
  } else if (operation.kind == plan::Kind::Optimizer && operation.layers != 0) {
    key.queue = {plan::QueueKind::Device, plan::Priority::Updates};
  } else if (fillsWeights && (plan::rowOf(operation.kind).queues & plan::kWeightsQueue) != 0) {
    key.queue = {plan::QueueKind::Device, plan::Priority::Weights};
  }
  const auto found = llvm::find(queues, key);
  const auto queue = uint32_t(found - queues.begin());
  if (found == queues.end())
    queues.push_back(key);
  return queue;
}

void Program::useCommunicator(Communicator other) {
  communicator = other;
  queues = {QueueKey()};
  for (Instruction &instruction : instructions)
    instruction.queue = queueFor(of(instruction));
}

void Program::dropUnused() {
  std::vector<uint32_t> moved(operations.size(), kNone); // to where
  for (const Instruction &instruction : instructions)
    moved[instruction.operation] = 0;
  uint32_t kept = 0;
  for (uint32_t i = 0; i != operations.size(); ++i) {
    if (moved[i] == kNone)
      continue;
    operations[kept] = operations[i];
    yields[kept] = yields[i];
    moved[i] = kept++;
  }
  operations.resize(kept);
  yields.resize(kept);
  index.clear();
  for (Instruction &instruction : instructions)
    instruction.operation = moved[instruction.operation];
}

/// In time linear in instructions and uses.
static void sort(std::vector<Use> &uses, size_t instructions) {
  std::vector<uint32_t> first(instructions + 1); // where the uses by each instruction begin
  for (const Use &use : uses)
    ++first[use.user];
  for (size_t i = 1; i != first.size(); ++i)
    first[i] += first[i - 1];
  std::vector<Use> sorted(uses.size());
  for (const Use &use : uses)
    sorted[--first[use.user]] = use;
  for (size_t i = 0; i != instructions; ++i)
    if (first[i + 1] - first[i] > 1)
      std::sort(sorted.begin() + first[i], sorted.begin() + first[i + 1]);
  uses = std::move(sorted);
}

void Program::sortUses() {
  sort(uses, instructions.size());
  if (!carried.empty())
    sort(carried, instructions.size());
}

//===----------------------------------------------------------------------===//
// Edits
//===----------------------------------------------------------------------===//

int32_t ProgramSet::groupOf(std::vector<int32_t> ranks) {
  const plan::Group group{std::move(ranks)};
  const auto found = llvm::find(groups, group);
  const auto index = int32_t(found - groups.begin());
  if (found == groups.end())
    groups.push_back(group);
  return index;
}

std::vector<int32_t> processesOf(const std::vector<int32_t> &ranks, int32_t degree) {
  std::vector<int32_t> processes;
  for (const int32_t rank : ranks)
    for (int32_t replica = 0; replica != degree; ++replica)
      processes.push_back(rank * degree + replica);
  return processes;
}

size_t ProgramSet::instructions() const {
  size_t count = 0;
  for (const Program &program : programs)
    count += program.instructions.size();
  return count;
}

/// Makes links follow the instructions of a rank that have moved. What was at i is now at placed[i]; kNone: it is gone.
void ProgramSet::moved(size_t rank, const std::vector<uint32_t> &placed) {
  Program &program = programs[rank];
  auto follow = [&](uint32_t &instruction) {
    if (instruction != kNone)
      instruction = placed[instruction];
  };
  for (uint32_t i = 0; i != program.instructions.size(); ++i) {
    Instruction &instruction = program.instructions[i];
    const plan::Kind kind = program.kind(instruction);
    if (!plan::receives(kind))
      follow(instruction.in);
    if (!plan::sends(kind))
      follow(instruction.out);
    if (plan::sends(kind) && instruction.out != kNone)
      transfers[instruction.out].send = i;
    else if (plan::receives(kind) && instruction.in != kNone)
      transfers[instruction.in].recv = i;
  }
  for (std::vector<Use> *uses : {&program.uses, &program.carried}) {
    for (Use &use : *uses)
      use = {placed[use.user], placed[use.definition]};
    llvm::erase_if(*uses, [](const Use &use) { return use.user == kNone || use.definition == kNone; });
  }
  program.sortUses();
  for (plan::Window &window : program.windows)
    window.instruction = placed[window.instruction];
  llvm::erase_if(program.windows, [](const plan::Window &window) { return window.instruction == kNone; });
  llvm::sort(program.windows,
             [](const plan::Window &one, const plan::Window &other) { return one.instruction < other.instruction; });
}

void ProgramSet::reorder(size_t rank, const std::vector<uint32_t> &order) {
  Program &program = programs[rank];
  std::vector<uint32_t> placed(program.instructions.size(), kNone);
  std::vector<Instruction> ordered;
  ordered.reserve(order.size());
  for (const uint32_t old : order) {
    placed[old] = uint32_t(ordered.size());
    ordered.push_back(program.instructions[old]);
  }
  program.instructions = std::move(ordered);
  moved(rank, placed);
}

void ProgramSet::insert(size_t rank, uint32_t at, const plan::Operation &operation, int32_t microbatch,
                        Location place) {
  Program &program = programs[rank];
  Instruction made;
  made.operation = program.indexOf(operation);
  made.microbatch = microbatch;
  made.queue = program.queueFor(operation);
  made.place = uint32_t(program.places.size());
  program.places.push_back(place);
  std::vector<uint32_t> placed(program.instructions.size());
  for (uint32_t i = 0; i != placed.size(); ++i)
    placed[i] = i + (i >= at ? 1 : 0);
  program.instructions.insert(program.instructions.begin() + at, made);
  moved(rank, placed);
}

void ProgramSet::replace(size_t rank, uint32_t at, const plan::Operation &operation) {
  Program &program = programs[rank];
  Instruction &instruction = program.instructions[at];
  instruction.operation = program.indexOf(operation, program.yieldOf(at));
  instruction.queue = program.queueFor(operation);
}

void ProgramSet::erase(size_t rank, uint32_t at) {
  struct Gone {
    size_t rank;
    uint32_t at;
  };
  SmallVector<Gone, 2> gone{{rank, at}};
  const Program &program = programs[rank];
  const Instruction &instruction = program.instructions[at];
  const plan::Kind kind = program.kind(instruction);
  uint32_t transfer = plan::sends(kind) ? instruction.out : plan::receives(kind) ? instruction.in : kNone;
  if (transfer != kNone) {
    const Transfer &ends = transfers[transfer];
    gone.assign({{size_t(ends.from), ends.send}, {size_t(ends.to), ends.recv}});
  }
  for (const Gone &each : gone) {
    std::vector<uint32_t> order;
    for (uint32_t i = 0; i != programs[each.rank].instructions.size(); ++i)
      if (i != each.at)
        order.push_back(i);
    reorder(each.rank, order);
  }
  if (transfer == kNone)
    return;
  // The last transfer takes the index that has become free.
  if (transfer + 1 != transfers.size()) {
    const Transfer &last = transfers[transfer] = transfers.back();
    programs[size_t(last.from)].instructions[last.send].out = transfer;
    programs[size_t(last.to)].instructions[last.recv].in = transfer;
  }
  transfers.pop_back();
}

void ProgramSet::addTransfer(int32_t from, uint32_t producer, uint32_t send, int32_t to, uint32_t consumer,
                             uint32_t recv) {
  Program &sender = programs[size_t(from)], &receiver = programs[size_t(to)];
  const auto transfer = uint32_t(transfers.size());
  Instruction &made = sender.instructions[producer], &taken = receiver.instructions[consumer];
  const int32_t microbatch = made.microbatch;
  made.out = uint32_t(sender.instructions.size());
  taken.in = uint32_t(receiver.instructions.size());
  transfers.push_back({from, to, made.out, taken.in});
  const uint32_t places[] = {made.place, taken.place};
  sender.instructions.push_back(
      {send, microbatch, sender.queueFor(sender.operations[send]), places[0], producer, transfer});
  receiver.instructions.push_back(
      {recv, microbatch, receiver.queueFor(receiver.operations[recv]), places[1], transfer, consumer});
}

//===----------------------------------------------------------------------===//
// Questions
//===----------------------------------------------------------------------===//

std::string ProgramSet::check() const {
  for (size_t rank = 0; rank != programs.size(); ++rank) {
    const Program &program = programs[rank];
    auto wrong = [&](uint32_t i, const char *what) {
      return "rank " + std::to_string(rank) + ": " + program.nameOf(i) + " " + what;
    };
    const auto count = uint32_t(program.instructions.size());
    for (uint32_t i = 0; i != count; ++i) {
      const Instruction &own = program.instructions[i];
      if (own.operation >= program.operations.size() || own.queue >= program.queues.size() ||
          own.place >= program.places.size())
        return "rank " + std::to_string(rank) + ": instruction " + std::to_string(i) + " names what is not there";
      const plan::Kind kind = program.kind(own);
      if (plan::sends(kind) && own.out != kNone && (own.out >= transfers.size() || transfers[own.out].send != i))
        return wrong(i, "is not the send of its transfer");
      if (plan::receives(kind) && own.in != kNone && (own.in >= transfers.size() || transfers[own.in].recv != i))
        return wrong(i, "is not the receive of its transfer");
      if (plan::isCompute(kind) && own.out != kNone && (own.out >= count || program.instructions[own.out].in != i))
        return wrong(i, "makes what its send does not take");
      if (plan::receives(kind) && own.out != kNone && (own.out >= count || program.instructions[own.out].in != i))
        return wrong(i, "brings what its pass does not take");
    }
    for (const std::vector<Use> *uses : {&program.uses, &program.carried}) {
      if (!std::is_sorted(uses->begin(), uses->end()))
        return "rank " + std::to_string(rank) + ": uses are not in order";
      for (const Use &use : *uses)
        if (use.user >= count || use.definition >= count)
          return "rank " + std::to_string(rank) + ": a use names what is not there";
    }
    for (size_t w = 0; w != program.windows.size(); ++w)
      if (const uint32_t of = program.windows[w].instruction;
          of >= count || (w != 0 && of <= program.windows[w - 1].instruction))
        return "rank " + std::to_string(rank) + ": windows are not those of its instructions, in order";
  }
  return {};
}

plan::Operation normOf(int32_t stage, plan::Time cost) {
  constexpr int64_t kNorm = 8; // bytes
  return {.kind = plan::Kind::AllReduce, .of = plan::Payload::Norm, .stage = stage, .cost = cost, .bytes = kNorm};
}

llvm::SmallSet<int32_t, 4> recomputedStages(const Program &program) {
  llvm::SmallSet<int32_t, 4> stages;
  for (const plan::Operation &operation : program.operations)
    if (plan::does(operation.kind, plan::kRecomputation))
      stages.insert(operation.stage);
  return stages;
}

schedule::Words wordsOf(const ProgramSet &set) {
  schedule::Words words;
  for (const Program &program : set.programs) {
    schedule::Word &word = words.emplace_back();
    bool overlapped = false;                                  // whether the next pass is the F of a pair
    std::set<std::tuple<plan::Kind, int32_t, int32_t>> begun; // passes in parts
    for (const Instruction &instruction : program.instructions) {
      const plan::Operation &operation = program.of(instruction);
      overlapped |= plan::isHeader(operation.kind);
      if (!plan::isOrdered(operation.kind) ||
          (operation.layers != 0 && !begun.insert({operation.kind, operation.stage, instruction.microbatch}).second))
        continue;
      word.push_back({operation.stage, schedule::letterOf(operation.kind), std::exchange(overlapped, false)});
    }
  }
  return words;
}

} // namespace pipec
