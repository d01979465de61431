#include "compiler/program/Streams.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>

using namespace mlir;

namespace pipec {

using namespace pipe;

namespace {

template <typename Type> int64_t bytesIn(TypeRange types) {
  for (mlir::Type type : types)
    if (auto sized = dyn_cast<Type>(type))
      return sized.getBytes();
  return 0;
}

plan::Operation operationOf(mlir::Operation *op) {
  plan::Operation made;
  auto holds = [&](plan::Kind kind, auto pass, TypeRange types) {
    made.kind = kind;
    made.stage = int32_t(pass.getStage());
    made.cost = int64_t(pass.getCost());
    made.activation = bytesIn<ActivationType>(types);
    made.context = bytesIn<ContextType>(types);
  };
  auto carries = [&](plan::Kind kind, auto transfer, BufferType type) {
    made.kind = kind;
    made.of = transfer.getOf() == Payload::Forward ? plan::Payload::Forward : plan::Payload::Backward;
    made.stage = int32_t(transfer.getStage());
    made.peer = int32_t(transfer.getPeer());
    made.cost = int64_t(transfer.getCost());
    made.latency = int64_t(transfer.getLatency());
    made.bytes = type.getBytes();
  };
  llvm::TypeSwitch<mlir::Operation *>(op)
      .Case<ForwardOp>([&](auto pass) { holds(plan::Kind::Forward, pass, op->getResultTypes()); })
      .Case<BackwardOp>([&](auto pass) { holds(plan::Kind::Backward, pass, op->getOperandTypes()); })
      .Case<BackwardInputOp>([&](auto pass) { holds(plan::Kind::BackwardInput, pass, op->getOperandTypes()); })
      .Case<BackwardWeightOp>([&](auto pass) { holds(plan::Kind::BackwardWeight, pass, op->getOperandTypes()); })
      .Case<SendOp>([&](SendOp send) {
        carries(plan::Kind::Send, send, cast<BufferType>(firstOf<BufferType>(send.getInputs()).getType()));
      })
      .Case<RecvOp>([&](RecvOp recv) { carries(plan::Kind::Recv, recv, cast<BufferType>(recv.getTensor().getType())); })
      .Case<OptimizerStepOp>([&](OptimizerStepOp optimizer) {
        made.kind = plan::Kind::Optimizer;
        made.stage = int32_t(optimizer.getStage());
        made.cost = int64_t(optimizer.getCost());
      })
      .Case<OverlappedOp>([&](OverlappedOp pair) {
        made.kind = plan::Kind::Overlapped;
        made.stage = stageOf(pair);
        made.cost = int64_t(pair.getCost());
      })
      .Case<AllReduceOp>([&](AllReduceOp reduce) {
        made.kind = plan::Kind::AllReduce;
        if (auto stages = cast<ProgramOp>(op->getParentOp()).getStages(); stages && !stages->empty())
          made.stage = stages->front();
        made.peer = reduce.getPeer() ? int32_t(*reduce.getPeer()) : -1;
        made.bytes = int64_t(reduce.getBytes());
        made.cost = int64_t(reduce.getCost());
      });
  return made;
}

/// Fills in where the data of each record come from and go to.
void link(Stream &stream) {
  const bool fills = stream.program.getFillWeights();
  llvm::DenseMap<Operation *, uint32_t> index;
  index.reserve(unsigned(stream.records.size()));
  for (uint32_t i = 0; i != stream.records.size(); ++i) {
    Record &record = stream.records[i];
    index[stream.ops[i]] = i;
    plan::Kind kind = stream.kind(record);
    for (Value operand : stream.ops[i]->getOperands()) {
      auto found = index.find(operand.getDefiningOp());
      if (found == index.end())
        continue;
      uint32_t definition = found->second;
      Record &source = stream.records[definition];
      plan::Kind sourceKind = stream.kind(source);
      if (fills && kind == plan::Kind::BackwardWeight) {
        record.in = record.in == kNone ? definition : std::max(record.in, definition);
      } else if (kind == plan::Kind::Send && isa<BufferType>(operand.getType()) && plan::isCompute(sourceKind)) {
        record.in = definition;
        source.out = i;
      } else if (record.in == kNone && sourceKind == plan::Kind::Recv && operand.hasOneUse() && plan::isCompute(kind)) {
        record.in = definition;
        source.out = i;
      } else if (isa<TokenType>(operand.getType()) || sourceKind == plan::Kind::Recv) {
        stream.uses.push_back({i, definition});
      }
    }
  }
  llvm::sort(stream.uses);
}

} // namespace

void Stream::sortUses() {
  std::vector<uint32_t> first(records.size() + 1); // of each user's
  for (const Use &use : uses)
    ++first[use.user];
  for (size_t i = 1; i != first.size(); ++i)
    first[i] += first[i - 1];
  std::vector<Use> sorted(uses.size());
  for (const Use &use : uses)
    sorted[--first[use.user]] = use;
  for (size_t i = 0; i != records.size(); ++i)
    if (first[i + 1] - first[i] > 1)
      std::sort(sorted.begin() + first[i], sorted.begin() + first[i + 1]);
  uses = std::move(sorted);
}

std::string Stream::nameOf(uint32_t record) const {
  if (hasOps())
    return pipec::nameOf(ops[record]);
  const plan::Operation &operation = of(records[record]);
  const bool once = operation.kind == plan::Kind::AllReduce || operation.kind == plan::Kind::Optimizer ||
                    operation.kind == plan::Kind::Overlapped;
  return pipec::nameOf(operation, once ? std::nullopt : std::optional(records[record].microbatch));
}

Location Stream::placeOf(uint32_t record) const {
  if (hasOps())
    return ops[record]->getLoc();
  const Record &own = records[record];
  const plan::Kind kind = this->kind(own);
  return origins[kind == plan::Kind::Send   ? records[own.in].operation
                 : kind == plan::Kind::Recv ? records[own.out].operation
                                            : own.operation]
      .place;
}

InFlightDiagnostic Stream::emitError(uint32_t record) const {
  return hasOps() ? ops[record]->emitError() : mlir::emitError(placeOf(record));
}

int64_t Stream::yieldOf(uint32_t record) const {
  if (!plan::isCompute(kind(records[record])))
    return -1;
  if (!hasOps())
    return origins[records[record].operation].yields;
  Value tensor = firstOf<BufferType>(ops[record]->getResults());
  return tensor ? cast<BufferType>(tensor.getType()).getBytes() : -1;
}

uint32_t Stream::indexOf(const plan::Operation &operation) {
  uint64_t key = uint64_t(uint32_t(operation.stage)) << 16 | uint64_t(operation.kind) << 8 |
                 uint64_t(operation.of) << 1 |
                 uint64_t(operation.kind == plan::Kind::AllReduce && operation.peer != -1);
  auto [it, isNew] = index.try_emplace(key, uint32_t(operations.size()));
  if (!isNew && operations[it->second] == operation)
    return it->second;
  it->second = uint32_t(operations.size());
  operations.push_back(operation);
  return it->second;
}

Streams::Streams(mlir::Operation *module) {
  auto programs = findPrograms(cast<ModuleOp>(module));
  if (failed(programs))
    return;
  for (ProgramOp program : *programs) {
    Stream &stream = ranks.emplace_back();
    stream.program = program;
    bool communicates = false;
    for (Operation &op : program.getStep().front()) {
      stream.records.push_back({stream.indexOf(operationOf(&op)), microbatchOf(&op)});
      stream.ops.push_back(&op);
      communicates |= isa<SendOp, RecvOp, AllReduceOp>(op);
    }
    // Between passes of one queue, order says it all.
    if (communicates || program.getFillWeights())
      link(stream);
  }
  valid = true;
}

LogicalResult Streams::checkPeers() const {
  const auto isThere = [&](const plan::Operation &operation) { return operation.peer < int32_t(ranks.size()); };
  for (const Stream &stream : ranks)
    if (!llvm::all_of(stream.operations, isThere))
      for (uint32_t i = 0; i != stream.records.size(); ++i)
        if (const plan::Operation &operation = stream.of(stream.records[i]); !isThere(operation))
          return stream.emitError(i) << stream.nameOf(i) << " names rank " << operation.peer
                                     << ", which has no program";
  return success();
}

LogicalResult Streams::match() {
  if (matched)
    return success();
  // Keyed by what is carried, as the receiver names it, and the two ranks.
  auto keyOf = [](const plan::Operation &operation, int32_t stage, int32_t microbatch, int32_t from, int32_t to) {
    return std::pair(uint64_t(uint32_t(stage)) << 32 | uint32_t(microbatch),
                     uint64_t(operation.of) << 62 | uint64_t(uint32_t(from)) << 31 | uint32_t(to));
  };
  llvm::DenseMap<std::pair<uint64_t, uint64_t>, uint32_t> receives;
  size_t receiveCount = 0;
  for (size_t rank = 0; rank != ranks.size(); ++rank)
    for (uint32_t i = 0; i != ranks[rank].records.size(); ++i)
      if (const Stream &stream = ranks[rank]; stream.kind(stream.records[i]) == plan::Kind::Recv) {
        const Record &record = stream.records[i];
        const plan::Operation &recv = stream.of(record);
        receives[keyOf(recv, recv.stage, record.microbatch, recv.peer, int32_t(rank))] = i;
        ++receiveCount;
      }
  for (size_t rank = 0; rank != ranks.size(); ++rank)
    for (uint32_t i = 0; i != ranks[rank].records.size(); ++i) {
      Record &send = ranks[rank].records[i];
      const plan::Operation &operation = ranks[rank].of(send);
      if (operation.kind != plan::Kind::Send)
        continue;
      int32_t stage = operation.stage + (operation.of == plan::Payload::Forward ? 1 : -1);
      auto it = receives.find(keyOf(operation, stage, send.microbatch, int32_t(rank), operation.peer));
      if (it == receives.end() || it->second == kNone)
        return ranks[rank].emitError(i) << ranks[rank].nameOf(i) << " on rank " << rank << " has no receive on rank "
                                        << operation.peer;
      uint32_t at = std::exchange(it->second, kNone);
      --receiveCount;
      Stream &to = ranks[size_t(operation.peer)];
      Record &recv = to.records[at];
      if (send.in == kNone)
        return ranks[rank].emitError(i) << ranks[rank].nameOf(i) << " sends what no pass of its rank yields";
      if (recv.out == kNone)
        return to.emitError(at) << to.nameOf(at) << " is expected to have one pass that takes it";
      send.out = recv.in = uint32_t(transfers.size());
      transfers.push_back({int32_t(rank), operation.peer, send.in, i, recv.out, at});
    }
  matched = receiveCount == 0;
  for (size_t rank = 0; !matched && rank != ranks.size(); ++rank)
    for (uint32_t i = 0; i != ranks[rank].records.size(); ++i)
      if (const Record &record = ranks[rank].records[i];
          ranks[rank].kind(record) == plan::Kind::Recv && record.in == kNone)
        return ranks[rank].emitError(i) << ranks[rank].nameOf(i) << " on rank " << rank << " has no send on rank "
                                        << ranks[rank].of(record).peer;
  return success();
}

void Streams::permute(size_t rank, const std::vector<uint32_t> &order) {
  Stream &stream = ranks[rank];
  std::vector<uint32_t> placed(order.size());
  for (uint32_t i = 0; i != order.size(); ++i)
    placed[order[i]] = i;
  auto follow = [&](uint32_t &record) {
    if (record != kNone)
      record = placed[record];
  };
  std::vector<Record> records;
  records.reserve(order.size());
  for (uint32_t old : order) {
    Record &record = records.emplace_back(stream.records[old]);
    plan::Kind kind = stream.kind(record);
    if (kind != plan::Kind::Recv)
      follow(record.in);
    if (kind != plan::Kind::Send)
      follow(record.out);
  }
  stream.records = std::move(records);
  if (stream.hasOps()) {
    std::vector<Operation *> ops;
    ops.reserve(order.size());
    for (uint32_t old : order)
      ops.push_back(stream.ops[old]);
    stream.ops = std::move(ops);
  }
  for (Use &use : stream.uses)
    use = {placed[use.user], placed[use.definition]};
  stream.sortUses();
}

void Streams::fixTransfers() {
  for (const Stream &stream : ranks)
    for (uint32_t i = 0; i != stream.records.size(); ++i) {
      const Record &record = stream.records[i];
      if (stream.kind(record) == plan::Kind::Send && record.out != kNone) {
        transfers[record.out].producer = record.in;
        transfers[record.out].send = i;
      } else if (stream.kind(record) == plan::Kind::Recv && record.in != kNone) {
        transfers[record.in].consumer = record.out;
        transfers[record.in].recv = i;
      }
    }
}

void Streams::moveOps(size_t rank) {
  Operation *previous = nullptr;
  for (Operation *op : ranks[rank].ops) {
    if (op->getPrevNode() != previous) {
      if (previous)
        op->moveAfter(previous);
      else
        op->moveBefore(op->getBlock(), op->getBlock()->begin());
    }
    previous = op;
  }
}

schedule::Words wordsOf(const Streams &streams) {
  schedule::Words words;
  for (const Stream &stream : streams.ranks) {
    schedule::Word &word = words.emplace_back();
    bool overlapped = false; // what comes next
    for (const Record &record : stream.records) {
      const plan::Operation &operation = stream.of(record);
      overlapped |= operation.kind == plan::Kind::Overlapped;
      if (!plan::isCompute(operation.kind))
        continue;
      constexpr schedule::Letter kLetters[] = {schedule::Letter::F, schedule::Letter::B, schedule::Letter::W,
                                               schedule::Letter::BW};
      word.push_back({operation.stage, kLetters[size_t(operation.kind)], std::exchange(overlapped, false)});
    }
  }
  return words;
}

} // namespace pipec
