#include "compiler/program/Programs.h"

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

static int64_t bytesOf(Type type) {
  return llvm::TypeSwitch<Type, int64_t>(type)
      .Case<BufferType, ActivationType, ContextType>([](auto sized) { return sized.getBytes(); })
      .Default([](Type) { return 0; });
}

schedule::Problem problemOf(PipelineOp pipeline) {
  schedule::Problem problem;
  problem.ranks = pipeline.ranks();
  problem.microbatches = int32_t(pipeline.getMicrobatches());
  problem.copies = int32_t(pipeline.getCopies().value_or(1));
  problem.slices = int32_t(pipeline.getSlices().value_or(1));
  problem.backwardGroup = int32_t(pipeline.getBackwardGroup().value_or(uint32_t(problem.slices)));
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
  if (problem.backward == schedule::BackwardMode::Split)
    for (schedule::Stage &stage : problem.stages)
      stage.backward = stage.backwardInput + stage.backwardWeight;
  if (auto gradients = pipeline.getGradients())
    for (size_t s = 0; s != problem.stages.size(); ++s)
      problem.stages[s].gradients = (*gradients)[s];
  if (auto overlapped = pipeline.getOverlapped())
    for (size_t s = 0; s != problem.stages.size(); ++s)
      if ((*overlapped)[s] >= 0)
        problem.stages[s].overlapped = (*overlapped)[s];
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
  if (auto norm = pipeline.getGlobalNorm())
    problem.globalNorm = int64_t(*norm);
  return problem;
}

std::pair<int32_t, int> queueKey(Communicator communicator, int32_t peer, bool sends) {
  return {communicator == Communicator::Shared ? -1 : peer,
          communicator == Communicator::PerEdge ? (sends ? 1 : 2) : 0};
}

Location placeOf(StringRef key, Location location) {
  if (auto fused = dyn_cast<FusedLoc>(location))
    for (Location each : fused.getLocations())
      if (auto named = dyn_cast<NameLoc>(each); named && named.getName() == key)
        return named.getChildLoc();
  return location;
}

bool isPass(Operation *op) { return isa<ForwardOp, BackwardInputOp, BackwardWeightOp, BackwardOp>(op); }

int32_t stageOf(Operation *op) {
  return llvm::TypeSwitch<Operation *, int32_t>(op)
      .Case<ForwardOp, BackwardInputOp, BackwardWeightOp, BackwardOp, SendOp, RecvOp, OptimizerStepOp>(
          [](auto known) { return int32_t(known.getStage()); })
      .Case<OverlappedOp>([](OverlappedOp pair) { return stageOf(pair.forward()); })
      .Default([](Operation *) { return -1; });
}

int32_t microbatchOf(Operation *op) {
  return llvm::TypeSwitch<Operation *, int32_t>(op)
      .Case<ForwardOp, BackwardInputOp, BackwardWeightOp, BackwardOp>(
          [](auto pass) { return int32_t(pass.getMicrobatch().value_or(0)); })
      .Case<SendOp, RecvOp>([](auto transfer) { return int32_t(transfer.getMicrobatch()); })
      .Default([](Operation *) { return 0; });
}

std::string nameOf(const plan::Operation &operation, std::optional<int32_t> microbatch) {
  if (operation.kind == plan::Kind::AllReduce)
    return operation.peer >= 0 ? "all_reduce with rank " + std::to_string(operation.peer) : "all_reduce";
  std::string what = plan::name(operation.kind);
  if (plan::isTransfer(operation.kind))
    what += operation.of == plan::Payload::Forward ? " F" : " B";
  what += " stage " + std::to_string(operation.stage);
  return microbatch ? what + " microbatch " + std::to_string(*microbatch) : what;
}

std::string nameOf(Operation *op) {
  plan::Operation named;
  named.stage = stageOf(op);
  auto isOf = [&](plan::Kind kind, Payload of) {
    named.kind = kind;
    named.of = of == Payload::Forward ? plan::Payload::Forward : plan::Payload::Backward;
  };
  llvm::TypeSwitch<Operation *>(op)
      .Case<ForwardOp>([&](auto) { named.kind = plan::Kind::Forward; })
      .Case<BackwardInputOp>([&](auto) { named.kind = plan::Kind::BackwardInput; })
      .Case<BackwardWeightOp>([&](auto) { named.kind = plan::Kind::BackwardWeight; })
      .Case<BackwardOp>([&](auto) { named.kind = plan::Kind::Backward; })
      .Case<OverlappedOp>([&](auto) { named.kind = plan::Kind::Overlapped; })
      .Case<SendOp>([&](SendOp send) { isOf(plan::Kind::Send, send.getOf()); })
      .Case<RecvOp>([&](RecvOp recv) { isOf(plan::Kind::Recv, recv.getOf()); })
      .Case<AllReduceOp>([&](AllReduceOp reduce) {
        named.kind = plan::Kind::AllReduce;
        named.peer = int32_t(reduce.getPeer().value_or(uint32_t(-1)));
      })
      .Default([&](auto) { named.kind = plan::Kind::Optimizer; });
  // A pass in a block has no microbatch.
  return nameOf(named, op->hasAttr("microbatch") ? std::optional(microbatchOf(op)) : std::nullopt);
}

} // namespace pipec
