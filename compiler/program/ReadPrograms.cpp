#include "compiler/program/BuildPrograms.h"
#include "compiler/program/ExchangeAttrs.h"
#include "compiler/program/ExchangeGradients.h"
#include "compiler/program/JobsAttrs.h"
#include "compiler/program/ProgramText.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace mlir;

namespace pipec {

using namespace pipe;

namespace {

/// The sum of all of that type.
template <typename Type> int64_t bytesIn(TypeRange types) {
  int64_t bytes = 0;
  for (mlir::Type type : types)
    if (auto sized = dyn_cast<Type>(type))
      bytes += sized.getBytes();
  return bytes;
}

plan::Operation operationOf(InstructionOpInterface op, const Program &program, ProgramSet &set) {
  plan::Operation made;
  made.kind = op.kind();
  // An all-reduce has no stage; the plan lists it under the rank's first.
  made.stage = op.stage() >= 0 || program.stages.empty() ? std::max(op.stage(), 0) : program.stages.front();
  made.peer = op.peerRank();
  made.cost = op.duration();
  if (const LayersAttr layers = op.layersOfStage()) {
    made.firstLayer = layers.getFirst();
    made.layers = layers.count();
  }
  if (plan::isCompute(made.kind)) {
    // A pass yields what it keeps, and takes what it gives back.
    const unsigned holds = plan::rowOf(made.kind).holds;
    const auto typesOf = [&](unsigned memory) {
      return (holds & memory) != 0 ? TypeRange(op->getResultTypes()) : TypeRange(op->getOperandTypes());
    };
    made.activation = bytesIn<ActivationType>(typesOf(plan::kActivation));
    made.context = bytesIn<ContextType>(typesOf(plan::kContexts));
    made.bytes = bytesIn<InputType>(typesOf(plan::kInput));
  } else if (plan::isCommunication(made.kind)) {
    made.of = op.payload();
    made.latency = op.latency();
    made.bytes = op.carried();
    if (!op.group().empty())
      made.group = set.groupOf(op.group().vec());
    if (op.replicaCount() != 0)
      made.group = set.groupOf(processesOf({program.rank}, op.replicaCount()));
    if (made.layers != 0) {
      made.begin = op.firstByte();
      made.end = made.begin + made.bytes;
    }
  }
  return made;
}

/// Reads one program.
class Reader {
public:
  Reader(ProgramOp op, ProgramSet &set) : op(op), set(set), program(op.getLoc()) {}

  Program run() {
    describe();
    // An overlapped pair becomes a header and its two passes behind it.
    for (Operation &each : op.getStep().front()) {
      add(&each);
      if (auto pair = dyn_cast<OverlappedOp>(each))
        for (Operation &inner : pair.getBody().front().without_terminator())
          add(&inner);
    }
    for (uint32_t i = 0; i != ops.size(); ++i)
      link(i);
    program.sortUses();
    return std::move(program);
  }

private:
  void describe() {
    program.rank = int32_t(op.getRank());
    program.communicator = op.getCommunicator();
    if (auto stages = op.getStages())
      program.stages.assign(stages->begin(), stages->end());
    program.fillsWeights = op.getFillWeights();
    program.copies = int32_t(op.getCopies().value_or(1));
    program.slices = int32_t(op.getSlices().value_or(1));
    if (op.getJob()) {
      program.job = int32_t(*op.getJob());
      program.piece = int64_t(*op.getPiece());
    }
    program.staticBytes = int64_t(op.getStaticBytes().value_or(0));
    program.workspace = int64_t(op.getWorkspace().value_or(0));
    if (op.getMemoryLimit())
      program.memoryLimit = int64_t(*op.getMemoryLimit());
    if (!op.getRings())
      return;
    program.rings.emplace();
    for (auto ring : op.getRings()->getAsRange<RingAttr>())
      program.rings->push_back({{ring.getPeer(), ring.getSends() ? plan::Direction::Send : plan::Direction::Recv,
                                 uint32_t(ring.getSlots()), ring.getBytes()},
                                ring.getDrained()});
  }

  void add(Operation *each) {
    const plan::Operation operation = operationOf(cast<InstructionOpInterface>(each), program, set);
    const bool yields = plan::isCompute(operation.kind) && bool(firstOf<BufferType>(each->getResults()));
    if (const WindowAttr window = cast<InstructionOpInterface>(each).windowOfWait())
      program.windows.push_back({uint32_t(ops.size()), window.getLength(), window.getFrom()});
    index[each] = uint32_t(ops.size());
    ops.push_back(each);
    program.instructions.push_back(
        {.operation = program.indexOf(operation, yields ? bytesIn<BufferType>(each->getResultTypes()) : -1),
         .microbatch = microbatchOf(each),
         .queue = program.queueFor(operation),
         .place = uint32_t(program.places.size())});
    program.places.push_back(each->getLoc());
  }

  /// Turns the operands of an instruction into hand-overs and uses. What it takes before that is yielded it takes of
  /// the step before.
  void link(uint32_t i) {
    Instruction &own = program.instructions[i];
    const plan::Kind kind = program.kind(own);
    if (plan::isHeader(kind))
      return; // its two passes have the operands
    for (Value operand : ops[i]->getOperands()) {
      const auto found = index.find(sourceOf(operand));
      if (found == index.end())
        continue;
      const uint32_t definition = found->second;
      if (definition >= i) {
        program.carried.push_back({i, definition});
        continue;
      }
      Instruction &source = program.instructions[definition];
      const plan::Kind sourceKind = program.kind(source);
      const bool data = !isa<TokenType>(operand.getType());
      if (program.onWeightsQueue(own)) {
        own.in = own.in == kNone ? definition : std::max(own.in, definition);
      } else if (plan::sends(kind) && data && plan::isCompute(sourceKind)) {
        own.in = definition;
        source.out = i;
      } else if (own.in == kNone && plan::receives(sourceKind) && operand.hasOneUse() && plan::isCompute(kind)) {
        own.in = definition;
        source.out = i;
      } else if (!data || plan::receives(sourceKind)) {
        program.uses.push_back({i, definition});
      }
    }
  }

  ProgramOp op;
  ProgramSet &set;
  Program program;
  std::vector<Operation *> ops;
  llvm::DenseMap<Operation *, uint32_t> index;
};

/// The module's programs, rank 0's first.
FailureOr<std::vector<ProgramOp>> findPrograms(ModuleOp module) {
  std::map<uint32_t, ProgramOp> byRank;
  for (auto program : module.getOps<ProgramOp>()) {
    auto [it, isNew] = byRank.try_emplace(program.getRank(), program);
    if (!isNew) {
      auto error = program.emitError() << "rank " << program.getRank() << " has two programs";
      error.attachNote(it->second.getLoc()) << "the other is here";
      return failure();
    }
  }
  if (byRank.empty())
    return module.emitError("expected a 'pipe.program' for each rank, found none"), failure();
  std::vector<ProgramOp> programs;
  for (auto [rank, program] : byRank) {
    if (rank != programs.size())
      return program.emitError() << "expected a 'pipe.program' for each rank, found none for rank " << programs.size(),
             failure();
    programs.push_back(program);
  }
  return programs;
}

/// Checks that each rank that an instruction names has a program, and each rank of a group a collective of that group.
LogicalResult checkPeers(const ProgramSet &set) {
  std::vector<std::vector<bool>> has(set.groups.size(), std::vector<bool>(set.ranks()));
  const auto isOfRanks = [](const plan::Operation &operation) {
    return operation.group >= 0 && (operation.layers == 0 || plan::isOfShared(operation));
  };
  for (const Program &program : set.programs)
    for (const plan::Operation &operation : program.operations)
      if (isOfRanks(operation))
        has[size_t(operation.group)][size_t(program.rank)] = true;
  for (const Program &program : set.programs)
    for (uint32_t i = 0; i != program.instructions.size(); ++i) {
      const plan::Operation &operation = program.of(program.instructions[i]);
      const auto named = isOfRanks(operation) ? ArrayRef<int32_t>(set.groups[size_t(operation.group)].members)
                                              : ArrayRef<int32_t>(operation.peer);
      for (const int32_t rank : named) {
        if (rank >= int32_t(set.ranks()))
          return program.emitError(i) << program.nameOf(i) << " names rank " << rank << ", which has no program";
        if (isOfRanks(operation) && !has[size_t(operation.group)][size_t(rank)])
          return program.emitError(i) << program.nameOf(i) << " is over rank " << rank << " too, which has none of it";
      }
    }
  return success();
}

/// Matches sends and receives by what they carry.
class Matcher {
public:
  explicit Matcher(ProgramSet &set) : set(set) {}

  LogicalResult run() {
    collect();
    for (size_t rank = 0; rank != set.ranks(); ++rank)
      for (uint32_t i = 0; i != set.programs[rank].instructions.size(); ++i)
        if (plan::sends(set.programs[rank].kind(set.programs[rank].instructions[i])) && failed(match(rank, i)))
          return failure();
    for (const Program &program : set.programs)
      for (uint32_t i = 0; left != 0 && i != program.instructions.size(); ++i)
        if (const Instruction &own = program.instructions[i]; plan::receives(program.kind(own)) && own.in == kNone)
          return program.emitError(i) << program.nameOf(i) << " on rank " << program.rank << " has no send on rank "
                                      << program.of(own).peer;
    return success();
  }

private:
  /// What a transfer carries, as the receiver names it, and its two ranks.
  using Key = std::pair<uint64_t, uint64_t>;
  static Key keyOf(const plan::Operation &operation, int32_t stage, int32_t microbatch, int32_t from, int32_t to) {
    return {uint64_t(uint32_t(stage)) << 32 | uint32_t(microbatch),
            uint64_t(operation.of) << 62 | uint64_t(uint32_t(from)) << 31 | uint32_t(to)};
  }

  void collect() {
    for (const Program &program : set.programs)
      for (uint32_t i = 0; i != program.instructions.size(); ++i)
        if (const Instruction &own = program.instructions[i]; plan::receives(program.kind(own))) {
          const plan::Operation &recv = program.of(own);
          receives[keyOf(recv, recv.stage, own.microbatch, recv.peer, program.rank)] = i;
          ++left;
        }
  }

  LogicalResult match(size_t rank, uint32_t i) {
    Program &from = set.programs[rank];
    Instruction &send = from.instructions[i];
    const plan::Operation &operation = from.of(send);
    const int32_t stage = operation.stage + (operation.of == plan::Payload::Forward ? 1 : -1);
    const auto it = receives.find(keyOf(operation, stage, send.microbatch, from.rank, operation.peer));
    if (it == receives.end() || it->second == kNone)
      return from.emitError(i) << from.nameOf(i) << " on rank " << rank << " has no receive on rank " << operation.peer;
    const uint32_t at = std::exchange(it->second, kNone);
    --left;
    Program &to = set.programs[size_t(operation.peer)];
    Instruction &recv = to.instructions[at];
    if (recv.out == kNone)
      return to.emitError(at) << to.nameOf(at) << " is expected to have one pass that takes it";
    send.out = recv.in = uint32_t(set.transfers.size());
    set.transfers.push_back({from.rank, operation.peer, i, at});
    return success();
  }

  ProgramSet &set;
  llvm::DenseMap<Key, uint32_t> receives;
  size_t left = 0;
};

/// What the pipeline of the programs says of its replicas. Of its layers those are sharded whose weights are gathered.
void addLayers(const schedule::Replicas &replicas, ProgramSet &set) {
  set.degree = replicas.degree;
  set.sharedPort = replicas.sharesPort;
  set.layers = rowsOf(replicas);
  std::vector<size_t> first; // row of each stage
  for (size_t row = 0; row != set.layers.size(); ++row)
    if (size_t(set.layers[row].stage) == first.size())
      first.push_back(row);
  for (const Program &program : set.programs)
    for (const plan::Operation &operation : program.operations)
      for (int32_t layer = 0; operation.of == plan::Payload::Weights && layer != operation.layers; ++layer)
        if (const size_t row = first[size_t(operation.stage)] + size_t(operation.firstLayer + layer);
            row < set.layers.size() && set.layers[row].gradients > 0)
          set.layers[row].sharded = true;
}

/// Text names the ranks that sum a shared weight: all their replicas do.
void addReplicas(ProgramSet &set) {
  const std::vector<plan::Group> groups = std::exchange(set.groups, {});
  for (Program &program : set.programs)
    for (plan::Operation &operation : program.operations) {
      if (operation.group < 0)
        continue;
      const std::vector<int32_t> &members = groups[size_t(operation.group)].members;
      operation.group = set.groupOf(plan::isOfShared(operation) ? processesOf(members, set.degree) : members);
    }
}

} // namespace

FailureOr<ProgramSet> readPrograms(ModuleOp module) {
  const auto found = findPrograms(module);
  if (failed(found))
    return failure();
  ProgramSet set;
  set.programs.reserve(found->size());
  for (ProgramOp program : *found)
    set.programs.push_back(Reader(program, set).run());
  if (failed(checkPeers(set)))
    return failure();
  for (const Program &program : set.programs)
    for (uint32_t i = 0; i != program.instructions.size(); ++i)
      if (plan::movesSamples(program.kind(program.instructions[i])))
        return program.emitError(i)
                   << "programs of stages on several ranks are not read yet: text does not say what the "
                      "gradients of each layer are",
               failure();
  for (PipelineOp pipeline : module.getOps<PipelineOp>()) {
    if (const std::optional<schedule::Replicas> replicas = replicasOf(pipeline)) {
      addLayers(*replicas, set);
      addReplicas(set);
    }
    set.shared = sharedOf(problemOf(pipeline));
    set.shards = shardsOf(pipeline);
    set.jobs = jobsOf(pipeline);
  }
  const auto jobs = int32_t(set.jobs ? set.jobs->work.size() : 0);
  for (const Program &program : set.programs)
    if (program.job >= jobs)
      return emitError(program.place) << "rank " << program.rank << " runs job " << program.job << ", the pipeline has "
                                      << jobs,
             failure();
  return set;
}

LogicalResult matchTransfers(ProgramSet &set) { return Matcher(set).run(); }

} // namespace pipec
