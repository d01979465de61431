#include "compiler/program/Programs.h"

#include "llvm/ADT/STLExtras.h"

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

/// The bytes of an op's result of the type `Sized`; 0: it has none.
template <typename Sized> static int64_t bytesOf(Operation *op) {
  Value value = firstOf<Sized>(op->getResults());
  return value ? cast<Sized>(value.getType()).getBytes() : 0;
}

/// Takes over what a pass of the block says of its stage.
static void add(InstructionOpInterface pass, schedule::Stage &stage) {
  switch (pass.kind()) {
  case plan::Kind::Forward:
    stage.forward = pass.duration();
    stage.boundary = bytesOf<BufferType>(pass);
    if (Value input = firstOf<InputType>(pass->getResults())) { // R makes the other two
      stage.input = cast<InputType>(input.getType()).getBytes();
      break;
    }
    stage.activation = bytesOf<ActivationType>(pass);
    stage.context = bytesOf<ContextType>(pass);
    break;
  case plan::Kind::Recompute:
    stage.recompute = pass.duration();
    stage.activation = bytesOf<ActivationType>(pass);
    stage.context = bytesOf<ContextType>(pass);
    break;
  case plan::Kind::BackwardInput:
    stage.backwardInput = pass.duration();
    stage.backwardContext = bytesOf<ContextType>(pass);
    break;
  case plan::Kind::BackwardWeight:
    stage.backwardWeight = pass.duration();
    break;
  default:
    stage.backward = pass.duration();
  }
}

static schedule::Link linkOf(LinkAttr link) {
  return link ? schedule::Link{link.getLatency(), link.getBandwidth()} : schedule::Link{};
}

schedule::Problem problemOf(PipelineOp pipeline) {
  const ProblemAttr given = pipeline.getProblem();
  schedule::Problem problem;
  problem.ranks = given.ranks();
  problem.microbatches = given.getMicrobatches();
  problem.copies = given.getCopies();
  problem.slices = given.getSlices();
  problem.backwardGroup = given.getBackwardGroup().value_or(problem.slices);
  problem.rankOf = given.getPlacement().asArrayRef().vec();
  problem.link = linkOf(given.getLink());
  if (given.getLinks())
    for (auto link : given.getLinks().getAsRange<LinkAttr>())
      problem.links[{link.getFrom(), link.getTo()}] = linkOf(link);
  problem.stages.resize(problem.rankOf.size());
  problem.mixed = bool(given.getWhole());
  problem.backward = schedule::BackwardMode::Fused;
  std::vector<std::optional<int64_t>> back(problem.stages.size()); // of each stage's boundary
  for (auto pass : pipeline.block().getBody().getOps<InstructionOpInterface>()) {
    if (pass.kind() == plan::Kind::BackwardInput)
      problem.backward = schedule::BackwardMode::Split;
    if (size_t(pass.stage()) >= problem.stages.size())
      continue;
    add(pass, problem.stages[size_t(pass.stage())]);
    if (const int32_t before = problem.before(pass.stage());
        before >= 0 && plan::rowOf(pass.kind()).gives == plan::Payload::Backward)
      back[size_t(before)] = bytesOf<BufferType>(pass);
  }
  for (size_t s = 0; s != problem.stages.size(); ++s) {
    schedule::Stage &stage = problem.stages[s];
    if (back[s])
      stage.setGradientBack(*back[s]);
    if (problem.backward == schedule::BackwardMode::Split)
      stage.backward = given.getWhole() ? given.getWhole()[s] : stage.backwardInput + stage.backwardWeight;
    stage.backward += stage.recompute;
    stage.backwardInput += stage.recompute;
    if (given.getGradients())
      stage.gradients = given.getGradients()[s];
    if (given.getOverlapped() && given.getOverlapped()[s] >= 0)
      stage.overlapped = given.getOverlapped()[s];
    if (given.getOptimizer())
      stage.optimizer = given.getOptimizer()[s];
  }
  auto perRank = [&](DenseI64ArrayAttr values) {
    return values ? values.asArrayRef().vec() : std::vector<int64_t>(size_t(problem.ranks), 0);
  };
  problem.staticBytes = perRank(given.getStaticBytes());
  problem.workspace = perRank(given.getWorkspace());
  if (given.getMemoryLimit())
    problem.limitRanks(given.getMemoryLimit().asArrayRef().vec());
  problem.globalNorm = given.getGlobalNorm();
  if (given.getShared())
    for (auto weight : given.getShared().getAsRange<SharedWeightAttr>())
      problem.shared.push_back(
          {weight.getLayers().asArrayRef().vec(), weight.getStages().asArrayRef().vec(), weight.getGradients()});
  return problem;
}

std::pair<int32_t, int> queueKey(Communicator communicator, int32_t peer, bool sends) {
  return {communicator == Communicator::Shared ? -1 : peer,
          communicator == Communicator::PerEdge || communicator == Communicator::LaunchOrder ? (sends ? 1 : 2) : 0};
}

Location placeOf(StringRef key, Location location) {
  if (auto fused = dyn_cast<FusedLoc>(location))
    for (Location each : fused.getLocations())
      if (auto named = dyn_cast<NameLoc>(each); named && named.getName() == key)
        return named.getChildLoc();
  return location;
}

bool isPass(Operation *op) {
  auto instruction = dyn_cast<InstructionOpInterface>(op);
  return instruction && plan::isCompute(instruction.kind());
}

int32_t stageOf(Operation *op) {
  auto instruction = dyn_cast<InstructionOpInterface>(op);
  return instruction ? instruction.stage() : -1;
}

int32_t microbatchOf(Operation *op) {
  auto instruction = dyn_cast<InstructionOpInterface>(op);
  return instruction ? instruction.microbatch().value_or(0) : 0;
}

std::string nameOf(const plan::Operation &operation, std::optional<int32_t> microbatch) {
  std::string what = plan::name(operation.kind);
  if (plan::isCommunication(operation.kind))
    what += std::string(" ") + plan::name(operation.of);
  if (plan::isCollective(operation.kind))
    return what;
  what += " stage " + std::to_string(operation.stage);
  return microbatch ? what + " microbatch " + std::to_string(*microbatch) : what;
}

std::string nameOf(Operation *op) {
  auto instruction = cast<InstructionOpInterface>(op);
  plan::Operation named;
  named.kind = instruction.kind();
  named.of = instruction.payload();
  named.stage = instruction.stage();
  named.peer = instruction.peerRank();
  return nameOf(named, instruction.microbatch());
}

} // namespace pipec
