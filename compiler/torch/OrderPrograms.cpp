#include "compiler/torch/OrderPrograms.h"

namespace pipec::emit {

using schedule::Action;
using schedule::Cell;

OrderPrograms::OrderPrograms(const schedule::OrderCells &cells, const schedule::OrderIndex &index,
                             Communicator communicator)
    : cells(cells), index(index), communicator(communicator) {
  variant.stages = index.stages;
  variant.microbatches = index.microbatches;
  variant.launchOrder = communicator == Communicator::LaunchOrder;
  variant.programs.resize(cells.rows.size());
  queues.resize(cells.rows.size());
  stagesOf.resize(cells.rows.size());
  for (const int32_t rank : index.rankOf)
    place.push_back(stagesOf[size_t(rank)]++);
  for (size_t rank = 0; rank != cells.rows.size(); ++rank)
    add(rank);
}

void OrderPrograms::add(size_t rank) {
  const std::vector<Cell> &row = cells.rows[rank];
  program = &variant.programs[rank];
  program->rank = int32_t(rank);
  program->queues = {{plan::QueueKind::Device, plan::Priority::Compute}};
  program->instructions.resize(row.size());
  program->step = {{0, uint32_t(row.size()), 1}};
  communicators.clear();
  operations.assign(size_t(stagesOf[rank]) * schedule::kActions, kNone);
  auto &own = queues[rank];
  own.resize(1);

  std::vector<uint32_t> ordinals(row.size()); // in its queue, from 1
  auto wait = [&](plan::Instruction &instruction, uint32_t cell) {
    ++instruction.waits;
    program->waits.push_back({program->instructions[cell].queue, false, ordinals[cell], 0});
  };
  auto waitForInput = [&](plan::Instruction &instruction, const Cell &cell) {
    const bool forward = cell.action == Action::F, backward = cell.action == Action::B || cell.action == Action::I;
    if (!forward && !backward)
      return;
    const Action recv = forward ? Action::RecvF : Action::RecvB;
    if (uint32_t from = index.at(recv, cell.stage, cell.microbatch); from != schedule::OrderIndex::kNowhere)
      wait(instruction, from);
  };
  for (uint32_t i = 0; i != row.size(); ++i) {
    const Cell &cell = row[i];
    plan::Instruction &instruction = program->instructions[i];
    instruction.operation = operationOf(cell);
    instruction.microbatch = std::max(cell.microbatch, 0);
    instruction.firstWait = uint32_t(program->waits.size());
    instruction.queue = queueOf(cell);
    if (instruction.queue == own.size())
      own.emplace_back();
    if (isTransfer(cell.action) && !own[0].empty())
      wait(instruction, own[0].back());
    waitForInput(instruction, cell);
    // An overlapped pair begins when the inputs of both passes are there.
    if (cell.opensPair)
      waitForInput(instruction, row[i + 1]);
    if (isWaitSend(cell.action)) {
      const Action send = cell.action == Action::WaitSendF ? Action::SendF : Action::SendB;
      wait(instruction, index.at(send, cell.stage, cell.microbatch));
    }
    own[instruction.queue].push_back(i);
    ordinals[i] = uint32_t(own[instruction.queue].size());
  }
}

uint32_t OrderPrograms::queueOf(const Cell &cell) {
  if (!isTransfer(cell.action))
    return 0;
  const int32_t peer = index.rankOf[size_t(schedule::otherStage(cell))];
  const std::pair key(communicator == Communicator::Shared ? -1 : peer,
                      isByDirection(communicator) ? (isSend(cell.action) ? 1 : 2) : 0);
  const uint32_t added = uint32_t(program->queues.size());
  const uint32_t queue = communicators.try_emplace(key, added).first->second;
  if (queue == added)
    program->queues.push_back({plan::QueueKind::Communicator, plan::Priority::Compute});
  return queue;
}

uint32_t OrderPrograms::operationOf(const Cell &cell) {
  uint32_t &known = operations[size_t(place[size_t(cell.stage)]) * schedule::kActions + size_t(cell.action)];
  if (known != kNone)
    return known;
  known = uint32_t(program->operations.size());
  plan::Operation operation;
  operation.stage = cell.stage;
  if (isPass(cell.action)) {
    operation.kind = *rowOf(cell.action).kind;
    operation.cost = 1;
  } else if (isTransfer(cell.action)) {
    operation.kind = *rowOf(cell.action).kind;
    operation.of = rowOf(cell.action).of;
    operation.peer = index.rankOf[size_t(schedule::otherStage(cell))];
    operation.cost = 1;
  } else {
    operation.kind = plan::Kind::Optimizer;
  }
  program->operations.push_back(operation);
  return known;
}

} // namespace pipec::emit
