#include "compiler/passes/Exchanged.h"

#include "compiler/passes/Exchanges.h"
#include "compiler/program/ExchangeAttrs.h"

#include <algorithm>
#include <map>
#include <set>

using namespace mlir;

namespace pipec {

using namespace pipe;

namespace {

/// The stages of a rank, those first that are done with their backwards first.
std::vector<int32_t> stagesInOrder(const Program &program) {
  std::vector<int32_t> stages;
  for (auto own = program.instructions.rbegin(); own != program.instructions.rend(); ++own)
    if (const plan::Operation &operation = program.of(*own);
        plan::does(operation.kind, plan::kWeightGradient) && !llvm::is_contained(stages, operation.stage))
      stages.push_back(operation.stage);
  std::reverse(stages.begin(), stages.end());
  return stages;
}

/// Whether the layers of a program's backwards are complete from the first on: those of W are, where BW goes down.
bool goesUp(const Program &program) {
  return llvm::any_of(program.operations,
                      [](const plan::Operation &operation) { return operation.kind == plan::Kind::BackwardWeight; });
}

/// The collectives of one pipeline's programs.
class Exchanged {
public:
  Exchanged(const ProgramSet &set, const schedule::Problem &problem) : set(set), problem(problem) {}

  /// Layers that have none by themselves belong to the bundle before them.
  schedule::Bundling bundling() const {
    schedule::Bundling made;
    for (size_t stage = 0; stage != problem.stages.size(); ++stage)
      made.stages.push_back(bundlesOf(int32_t(stage)));
    return made;
  }

private:
  schedule::StageBundles bundlesOf(int32_t stage) const {
    std::map<int32_t, bool> sums; // first layer → whether it is an all-reduce
    std::set<int32_t> gathers{0};
    const Program &program = set.programs[size_t(problem.rankOf[size_t(stage)])];
    for (const Instruction &own : program.instructions) {
      const plan::Operation &operation = program.of(own);
      if (!plan::isCollective(operation.kind) || operation.stage != stage || operation.layers == 0 ||
          plan::isOfShared(operation))
        continue;
      if (plan::sums(operation.kind))
        sums[operation.firstLayer] = operation.kind == plan::Kind::AllReduce;
      if (plan::gathers(operation.kind))
        gathers.insert(operation.firstLayer);
    }
    schedule::StageBundles made;
    made.gathers.assign(gathers.begin(), gathers.end());
    for (const auto &[first, whole] : sums) {
      made.sums.push_back(first);
      made.whole.push_back(whole);
    }
    if (made.sums.empty())
      made = {{0}, {0}, {true}};
    made.sums.front() = 0;
    return made;
  }

  const ProgramSet &set;
  const schedule::Problem &problem;
};

/// Checks that collectives name layers that the pipeline's replicas have, and that nothing is sent yet.
LogicalResult checkCollectives(const ProgramSet &set, const schedule::Replicas &replicas) {
  for (const Program &program : set.programs)
    for (uint32_t i = 0; i != program.instructions.size(); ++i) {
      const plan::Operation &operation = program.of(program.instructions[i]);
      if (plan::isTransfer(operation.kind))
        return program.emitError(i) << "expected programs without communication";
      if (operation.layers != 0 && !plan::isOfShared(operation) &&
          (size_t(operation.stage) >= replicas.layers.size() ||
           size_t(operation.firstLayer) + size_t(operation.layers) > replicas.layers[size_t(operation.stage)].size()))
        return program.emitError(i) << program.nameOf(i) << " names layers that the pipeline's replicas do not have";
    }
  return success();
}

} // namespace

schedule::Exchange oneByLayer(const ProgramSet &set, const schedule::Replicas &replicas) {
  schedule::Exchange exchange;
  for (const Program &program : set.programs) {
    std::vector<schedule::Collective> &queue = exchange.queues.emplace_back();
    const bool up = goesUp(program);
    for (const int32_t stage : stagesInOrder(program)) {
      const std::vector<schedule::ExchangedLayer> &layers = replicas.layers[size_t(stage)];
      const std::vector<schedule::Bytes> offsets = schedule::offsetsOf(layers);
      for (size_t n = 0; n != layers.size(); ++n) {
        const size_t layer = up ? n : layers.size() - 1 - n;
        if (layers[layer].gradients() > 0)
          queue.push_back({plan::Kind::AllReduce, stage, int32_t(layer), 1, offsets[layer], offsets[layer + 1], 0});
      }
    }
  }
  return exchange;
}

LogicalResult changeExchange(ProgramSet &set, PipelineOp pipeline, Rebundle rebundle) {
  const std::optional<schedule::Replicas> replicas = replicasOf(pipeline);
  if (!replicas || pipeline.getExchange()) // a solution stays as it is
    return success();
  if (failed(checkCollectives(set, *replicas)))
    return failure();
  const schedule::Problem problem = problemOf(pipeline);
  const schedule::Words words = wordsOf(set);
  if (const std::string wrong = schedule::verify(problem, words); !wrong.empty())
    return pipeline.emitError(wrong);
  const Exchanges exchanges(problem, words, pipeline.getProblem().getCommunicator(), PassPlaces(pipeline));
  const std::vector<std::vector<int32_t>> stages = problem.stagesByRank();
  const schedule::Ready ready = exchanges.readyOf(*replicas);
  const schedule::ExchangeInput input{*replicas, stages, ready};
  const auto judge = [&](const schedule::Exchange &exchange) { return exchanges.spanOf(*replicas, exchange); };
  const schedule::Bundling from = Exchanged(set, problem).bundling();
  const schedule::Bundling to = rebundle(input, from, exchanges.spanOf(set), judge);
  if (to.stages != from.stages)
    set = exchanges.setOf(*replicas, schedule::inOrderOfNeed(input, to, replicas->mayShard));
  return success();
}

} // namespace pipec
