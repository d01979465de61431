// pipe-build-schedule: from a building block, orders or a catalogue's schedule to one straight-line program a rank.
// Building blocks are those of Controllable Memory (arXiv 2405.15362), section 3.
#include "compiler/passes/Exchanged.h"
#include "compiler/passes/Passes.h"
#include "compiler/program/BuildPrograms.h"
#include "compiler/program/ExchangeAttrs.h"
#include "compiler/program/ExchangeGradients.h"
#include "compiler/program/JobsAttrs.h"
#include "compiler/program/Orders.h"
#include "compiler/schedule/catalogue/Catalogue.h"
#include "compiler/schedule/construct/Refill.h"
#include "compiler/schedule/model/Block.h"
#include "runtime/plan/Limits.h"

using namespace mlir;

namespace pipec {

using namespace pipe;

namespace {

/// Checks that every stage has a forward, and that all have a fused backward or all both halves of one. Fills `block`
/// with the slots of the passes.
LogicalResult verifyBlock(PipelineOp pipeline, schedule::Block &block) {
  size_t stages = pipeline.getPlacement().size();
  std::vector<Operation *> forward(stages), backward(stages), weight(stages), again(stages);
  bool fused = false, split = false;
  for (Operation &op : pipeline.block().getBody().front()) {
    size_t stage = size_t(stageOf(&op));
    if (stage >= stages)
      return op.emitError() << nameOf(&op) << " is not in the placement, which has " << stages
                            << (stages == 1 ? " stage" : " stages");
    fused |= isa<BackwardOp>(op);
    split |= isa<BackwardInputOp, BackwardWeightOp>(op);
    Operation *&slot = isa<ForwardOp>(op)          ? forward[stage]
                       : isa<RecomputeOp>(op)      ? again[stage]
                       : isa<BackwardWeightOp>(op) ? weight[stage]
                                                   : backward[stage];
    if (slot)
      return (op.emitError() << "stage " << stage << " has two "
                             << (isa<ForwardOp>(op)          ? "forwards"
                                 : isa<RecomputeOp>(op)      ? "recomputations"
                                 : isa<BackwardWeightOp>(op) ? "weight backwards"
                                                             : "backwards"))
                     .attachNote(slot->getLoc())
                 << "the other is here",
             failure();
    slot = &op;
  }
  if (fused && split)
    return pipeline.block().emitError("expected all backwards fused or all split, found both");
  if (!fused && !split)
    return pipeline.block().emitError("expected a backward for each stage, found none");
  bool hasSlots = pipeline.block().getInterval().has_value();
  block.interval = int64_t(pipeline.block().getInterval().value_or(1));
  auto slotOf = [hasSlots](Operation *op) { return hasSlots ? op->getAttrOfType<IntegerAttr>("at").getInt() : 0; };
  for (size_t s = 0; s != stages; ++s) {
    if (!forward[s] || !backward[s] || (split && !weight[s]))
      return pipeline.block().emitError()
             << "expected a forward and a backward for each stage, stage " << s << " lacks its "
             << (!forward[s]    ? "forward"
                 : !backward[s] ? "backward"
                                : "weight backward");
    block.forward.push_back(slotOf(forward[s]));
    block.backwardInput.push_back(slotOf(backward[s]));
    if (split)
      block.backwardWeight.push_back(slotOf(weight[s]));
    bool yields = bool(firstOf<BufferType>(forward[s]->getResults()));
    bool returns = bool(firstOf<BufferType>(backward[s]->getResults()));
    if (yields != (pipeline.after(int32_t(s)) >= 0))
      return forward[s]->emitError() << nameOf(forward[s])
                                     << (yields ? " yields a tensor, but there is no next stage"
                                                : " yields no tensor for the next stage");
    if (returns != (pipeline.before(int32_t(s)) >= 0))
      return backward[s]->emitError() << nameOf(backward[s])
                                      << (returns ? " yields a gradient, but there is no stage before"
                                                  : " yields no gradient for the stage before");
  }
  return success();
}

// The next three make words from one source each. They return what is wrong; empty: nothing.

/// From the block, repeated every interval.
std::string repeated(const schedule::Problem &problem, const schedule::Block &block, bool refilled,
                     schedule::Words &words) {
  std::string wrong = schedule::check(problem, block);
  if (!wrong.empty())
    return wrong;
  words = refilled ? schedule::refill(problem, block) : schedule::repeat(problem, block);
  // check() has found slots in the order of the data, which proves the words right unless backwards run in groups.
  return problem.backwardGroup == 1 ? "" : schedule::verify(problem, words);
}

/// From the pipeline's orders.
std::string given(PipelineOp pipeline, const schedule::Problem &problem, schedule::Words &words) {
  for (auto order : pipeline.getOrders()->getAsRange<OrderAttr>())
    words.push_back(wordOf(order));
  return schedule::verify(problem, words);
}

/// From the catalogue's schedule of the pipeline's name.
std::string catalogued(PipelineOp pipeline, schedule::Problem &problem, schedule::Words &words) {
  const schedule::Entry *entry = schedule::find(pipeline.getSymName());
  if (!entry)
    return "expected an interval and slots, or the name of a known schedule, found '" + pipeline.getSymName().str() +
           "'";
  schedule::Parameters parameters;
  if (auto given = pipeline.getParameters())
    for (NamedAttribute each : *given) {
      if (auto value = dyn_cast<IntegerAttr>(each.getValue()))
        parameters.emplace(each.getName().str(), value.getInt());
      else if (auto list = dyn_cast<DenseI64ArrayAttr>(each.getValue()))
        parameters.emplace(each.getName().str(), schedule::Given(list.asArrayRef().vec()));
      else
        return "expected an integer or a list of them as parameter '" + each.getName().str() + "'";
    }
  std::string wrong = schedule::check(*entry, problem, parameters);
  if (!wrong.empty())
    return wrong;
  words = schedule::wordsOf(*entry, problem, parameters);
  problem.backwardGroup = entry->backwardGroup(problem);
  return schedule::verify(problem, words);
}

/// Adds the exchange of gradients with replicas, if there are any: the pipeline's, or else a layer at a time.
LogicalResult addExchange(PipelineOp pipeline, const schedule::Problem &problem, ProgramSet &set) {
  const std::optional<schedule::Replicas> replicas = replicasOf(pipeline);
  if (!replicas)
    return success();
  if (problem.copies > 1 || problem.slices > 1 || pipeline.getFillWeights())
    return pipeline.emitError("replicas of two copies, of slices or with weights = fill are not supported yet");
  if (int64_t(problem.ranks) * replicas->degree > limits::kProcesses)
    return pipeline.emitError() << "expected at most " << limits::kProcesses << " processes, found " << problem.ranks
                                << " ranks of " << replicas->degree << " replicas";
  const std::optional<schedule::Exchange> given = exchangeOf(pipeline);
  exchangeGradients(set, *replicas, given ? *given : oneByLayer(set, *replicas));
  return success();
}

bool hasPairs(const schedule::Words &words) {
  return llvm::any_of(words, [](const schedule::Word &word) {
    return llvm::any_of(word, [](const schedule::Op &op) { return op.overlapped; });
  });
}

} // namespace

FailureOr<ProgramSet> buildSchedule(PipelineOp pipeline) {
  schedule::Block block;
  if (failed(verifyBlock(pipeline, block)))
    return failure();
  schedule::Problem problem = problemOf(pipeline);
  schedule::Words words;
  std::string wrong = schedule::check(problem);
  if (wrong.empty() && pipeline.getFillWeights() && problem.backward == schedule::BackwardMode::Fused)
    wrong = "weights = fill needs a split backward, found a fused one";
  if (wrong.empty())
    wrong = pipeline.block().getInterval() ? repeated(problem, block, pipeline.block().getRefilled(), words)
            : pipeline.getOrders()         ? given(pipeline, problem, words)
                                           : catalogued(pipeline, problem, words);
  if (!wrong.empty())
    return pipeline.block().emitError(wrong), failure();
  const ProblemAttr given = pipeline.getProblem();
  ProgramSet set = buildPrograms(problem, words, PassPlaces(pipeline),
                                 {.communicator = given.getCommunicator(), .fillsWeights = pipeline.getFillWeights()});
  if (failed(addExchange(pipeline, problem, set)))
    return failure();
  set.shards = shardsOf(pipeline);
  set.jobs = jobsOf(pipeline);
  if (set.shards && (problem.copies > 1 || problem.slices > 1 || pipeline.getFillWeights() || hasPairs(words)))
    return pipeline.emitError(
               "shards with two copies, slices, overlapped pairs or weights = fill are not supported yet"),
           failure();
  return set;
}

} // namespace pipec
