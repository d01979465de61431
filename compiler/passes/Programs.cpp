#include "compiler/passes/Programs.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"

#include <map>

using namespace mlir;

namespace pipec {

using namespace pipe;

PipelineOp findPipeline(ModuleOp module) {
  PipelineOp found;
  for (auto pipeline : module.getOps<PipelineOp>()) {
    if (found) {
      pipeline.emitError("expected one 'pipe.pipeline' in the module, found another").attachNote(found.getLoc())
          << "here";
      return {};
    }
    found = pipeline;
  }
  if (!found)
    module.emitError("expected a 'pipe.pipeline' in the module, found none");
  return found;
}

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

static int64_t bytesOf(Type type) {
  return llvm::TypeSwitch<Type, int64_t>(type)
      .Case<BufferType, ActivationType, ContextType>([](auto sized) { return sized.getBytes(); })
      .Default([](Type) { return 0; });
}

schedule::Problem problemOf(PipelineOp pipeline) {
  schedule::Problem problem;
  problem.ranks = pipeline.ranks();
  problem.microbatches = int32_t(pipeline.getMicrobatches());
  problem.rankOf.assign(pipeline.getPlacement().begin(), pipeline.getPlacement().end());
  problem.stages.resize(problem.rankOf.size());
  problem.link = {pipeline.getLink().getLatency(), pipeline.getLink().getBandwidth()};
  if (auto links = pipeline.getLinks())
    for (auto link : links->getAsRange<LinkAttr>())
      problem.links[{link.getFrom(), link.getTo()}] = {link.getLatency(), link.getBandwidth()};
  problem.backward = schedule::BackwardMode::Fused;
  for (Operation &op : pipeline.block().getBody().front()) {
    if (size_t(stageOf(&op)) >= problem.stages.size())
      continue;
    schedule::Stage &stage = problem.stages[size_t(stageOf(&op))];
    llvm::TypeSwitch<Operation *>(&op)
        .Case<ForwardOp>([&](ForwardOp forward) {
          stage.forward = int64_t(forward.getCost());
          if (Value value = firstOf<BufferType>(forward.getOutputs()))
            stage.boundary = bytesOf(value.getType());
          stage.activation = bytesOf(firstOf<ActivationType>(forward.getOutputs()).getType());
          stage.context = bytesOf(firstOf<ContextType>(forward.getOutputs()).getType());
        })
        .Case<BackwardOp>([&](BackwardOp backward) { stage.backward = int64_t(backward.getCost()); })
        .Case<BackwardInputOp>([&](BackwardInputOp backward) {
          problem.backward = schedule::BackwardMode::Split;
          stage.backwardInput = int64_t(backward.getCost());
        })
        .Case<BackwardWeightOp>([&](BackwardWeightOp backward) { stage.backwardWeight = int64_t(backward.getCost()); });
  }
  if (auto optimizer = pipeline.getOptimizer())
    for (size_t s = 0; s != problem.stages.size(); ++s)
      problem.stages[s].optimizer = (*optimizer)[s];
  auto perRank = [&](std::optional<ArrayRef<int64_t>> values) {
    return values ? std::vector<int64_t>(values->begin(), values->end())
                  : std::vector<int64_t>(size_t(problem.ranks), 0);
  };
  problem.staticBytes = perRank(pipeline.getStaticBytes());
  problem.workspace = perRank(pipeline.getWorkspace());
  problem.memoryLimit = int64_t(pipeline.getMemoryLimit().value_or(0));
  return problem;
}

schedule::Words wordsOf(const std::vector<ProgramOp> &programs) {
  schedule::Words words;
  for (ProgramOp program : programs) {
    schedule::Word &word = words.emplace_back();
    for (Operation &op : program.getStep().front()) {
      auto letter = llvm::TypeSwitch<Operation *, std::optional<schedule::Letter>>(&op)
                        .Case<ForwardOp>([](auto) { return schedule::Letter::F; })
                        .Case<BackwardInputOp>([](auto) { return schedule::Letter::B; })
                        .Case<BackwardWeightOp>([](auto) { return schedule::Letter::W; })
                        .Case<BackwardOp>([](auto) { return schedule::Letter::BW; })
                        .Default([](auto) { return std::nullopt; });
      if (letter)
        word.push_back({stageOf(&op), *letter});
    }
  }
  return words;
}

std::pair<int32_t, int> queueKey(Communicator communicator, int32_t peer, bool sends) {
  return {communicator == Communicator::Shared ? -1 : peer,
          communicator == Communicator::PerEdge ? (sends ? 1 : 2) : 0};
}

bool isPass(Operation *op) { return isa<ForwardOp, BackwardInputOp, BackwardWeightOp, BackwardOp>(op); }

int32_t stageOf(Operation *op) {
  return llvm::TypeSwitch<Operation *, int32_t>(op)
      .Case<ForwardOp, BackwardInputOp, BackwardWeightOp, BackwardOp, SendOp, RecvOp, OptimizerStepOp>(
          [](auto known) { return int32_t(known.getStage()); })
      .Default([](Operation *) { return -1; });
}

int32_t microbatchOf(Operation *op) {
  return llvm::TypeSwitch<Operation *, int32_t>(op)
      .Case<ForwardOp, BackwardInputOp, BackwardWeightOp, BackwardOp>(
          [](auto pass) { return int32_t(pass.getMicrobatch().value_or(0)); })
      .Case<SendOp, RecvOp>([](auto transfer) { return int32_t(transfer.getMicrobatch()); })
      .Default([](Operation *) { return 0; });
}

std::string nameOf(Operation *op) {
  std::string what = llvm::TypeSwitch<Operation *, std::string>(op)
                         .Case<ForwardOp>([](auto) { return "F"; })
                         .Case<BackwardInputOp>([](auto) { return "B"; })
                         .Case<BackwardWeightOp>([](auto) { return "W"; })
                         .Case<BackwardOp>([](auto) { return "BW"; })
                         .Case<SendOp>([](SendOp send) { return "send " + stringifyPayload(send.getOf()).str(); })
                         .Case<RecvOp>([](RecvOp recv) { return "recv " + stringifyPayload(recv.getOf()).str(); })
                         .Default([](auto) { return "optimizer"; });
  what += " stage " + std::to_string(stageOf(op));
  // A pass in a block has no microbatch.
  if (op->hasAttr("microbatch"))
    what += " microbatch " + std::to_string(microbatchOf(op));
  return what;
}

//===----------------------------------------------------------------------===//
// The dependence graph
//===----------------------------------------------------------------------===//

/// At one level, transfers come before passes (which may take what they bring), in a fixed order that does not depend
/// on the microbatch, so that what repeats looks the same every time.
static uint64_t tieOf(int32_t rank) { return uint64_t(1) << 63 | uint64_t(uint32_t(rank)); }
static uint64_t tieOf(const Transfer &transfer) {
  return uint64_t(uint32_t(transfer.from)) << 32 | uint64_t(uint32_t(transfer.to));
}

Operation *addWords(const std::vector<ProgramOp> &programs, Dependences &dependences, Nodes &nodes) {
  Operation *transfer = nullptr;
  for (ProgramOp program : programs) {
    std::optional<Graph::Node> last;
    int32_t rank = int32_t(program.getRank());
    for (Operation &op : program.getStep().front()) {
      if (isa<SendOp, RecvOp>(op)) {
        transfer = transfer ? transfer : &op;
        continue;
      }
      Graph::Node node = dependences.graph.add(isa<BackwardOp>(op) ? 2 : 1, tieOf(rank));
      dependences.passes.push_back(&op);
      dependences.rankOf.push_back(rank);
      nodes[&op] = node;
      if (last)
        dependences.graph.edge(*last, node);
      last = node;
    }
  }
  return transfer;
}

void addTransfer(Dependences &dependences, const Nodes &nodes, Transfer transfer) {
  Graph::Node node = dependences.graph.add(0, tieOf(transfer));
  dependences.graph.edge(nodes.lookup(transfer.producer), node);
  dependences.graph.edge(node, nodes.lookup(transfer.consumer));
  dependences.transfers.push_back(transfer);
}

LogicalResult addTransfers(const std::vector<ProgramOp> &programs, Dependences &dependences, const Nodes &nodes) {
  // Keyed by what is carried, as the receiver names it.
  llvm::DenseMap<std::pair<uint64_t, uint64_t>, RecvOp> receives;
  auto key = [](Payload of, int64_t stage, uint32_t microbatch, int64_t from, int64_t to) {
    return std::pair(uint64_t(of) << 60 | uint64_t(stage) << 28 | microbatch, uint64_t(from) << 32 | uint64_t(to));
  };
  size_t receiveCount = 0;
  for (ProgramOp program : programs)
    for (auto recv : program.getStep().front().getOps<RecvOp>()) {
      receives[key(recv.getOf(), recv.getStage(), recv.getMicrobatch(), recv.getPeer(), program.getRank())] = recv;
      ++receiveCount;
    }
  for (ProgramOp program : programs)
    for (auto send : program.getStep().front().getOps<SendOp>()) {
      int64_t stage = int64_t(send.getStage()) + (send.getOf() == Payload::Forward ? 1 : -1);
      auto it = receives.find(key(send.getOf(), stage, send.getMicrobatch(), program.getRank(), send.getPeer()));
      if (it == receives.end() || !it->second)
        return send.emitError() << nameOf(send) << " on rank " << program.getRank() << " has no receive on rank "
                                << send.getPeer();
      RecvOp recv = std::exchange(it->second, RecvOp());
      --receiveCount;
      Operation *producer = firstOf<BufferType>(send.getInputs()).getDefiningOp();
      if (!producer || !isPass(producer))
        return send.emitError() << nameOf(send) << " sends what no pass of its rank yields";
      if (!recv.getTensor().hasOneUse() || !isPass(*recv.getTensor().user_begin()))
        return recv.emitError() << nameOf(recv) << " is expected to have one pass that takes it";
      addTransfer(
          dependences, nodes,
          {send, recv, producer, *recv.getTensor().user_begin(), int32_t(program.getRank()), int32_t(send.getPeer())});
    }
  if (receiveCount == 0)
    return success();
  for (ProgramOp program : programs)
    for (auto recv : program.getStep().front().getOps<RecvOp>())
      if (receives.lookup(key(recv.getOf(), recv.getStage(), recv.getMicrobatch(), recv.getPeer(), program.getRank())))
        return recv.emitError() << nameOf(recv) << " on rank " << program.getRank() << " has no send on rank "
                                << recv.getPeer();
  return ProgramOp(programs.front()).emitError("a receive stands twice");
}

InFlightDiagnostic reportCycle(const Dependences &dependences, const std::vector<Graph::Node> &cycle) {
  auto name = [&](Graph::Node node) {
    if (!dependences.isTransfer(node))
      return "rank " + std::to_string(dependences.rankOf[node]) + ": " + nameOf(dependences.passes[node]);
    Transfer transfer = dependences.transferAt(node);
    return "the transfer from rank " + std::to_string(transfer.from) + " to rank " + std::to_string(transfer.to) +
           " after " + nameOf(transfer.producer);
  };
  auto location = [&](Graph::Node node) {
    return dependences.isTransfer(node) ? dependences.transferAt(node).producer->getLoc()
                                        : dependences.passes[node]->getLoc();
  };
  InFlightDiagnostic error = emitError(location(cycle.front())) << "the programs wait for each other in a cycle of "
                                                                << cycle.size() << ": " << name(cycle.front());
  for (Graph::Node node : llvm::drop_begin(cycle))
    error.attachNote(location(node)) << "which waits for " << name(node);
  return error;
}

void arrange(const std::vector<ProgramOp> &programs, const Dependences &dependences,
             const std::vector<Graph::Node> &order) {
  auto toEnd = [&](Operation *op, int32_t rank) {
    Block &block = ProgramOp(programs[size_t(rank)]).getStep().front();
    op->moveBefore(&block, block.end());
  };
  for (Graph::Node node : order) {
    if (!dependences.isTransfer(node)) {
      toEnd(dependences.passes[node], dependences.rankOf[node]);
      continue;
    }
    Transfer transfer = dependences.transferAt(node);
    if (!transfer.send)
      continue;
    toEnd(transfer.send, transfer.from);
    toEnd(transfer.recv, transfer.to);
  }
}

} // namespace pipec
