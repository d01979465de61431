#include "test/transfers/PyTorchSchedules.h"

#include "compiler/passes/Passes.h"
#include "compiler/schedule/evaluate/Evaluate.h"
#include "test/driver/RandomPipeline.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"

namespace pipec::test {

const std::vector<PyTorchSchedule> &pyTorchSchedules() {
  static const std::vector<PyTorchSchedule> kSchedules = {
      {"gpipe", 1, {174, 794, 1624}},
      {"1f1b", 1, {0, 0, 0}},
      {"looped-bfs", 2, {278, 1222, 2476}},
      {"interleaved-1f1b", 2, {262, 1100, 2246}},
      {"interleaved-1f1b", 4, {509, 2011, 3867}},
      {"interleaved-zb", 2, {279, 1166, 2330}},
      {"zb-v", 2, {277, 1158, 2329}},
  };
  return kSchedules;
}

PyTorchCase caseOf(const PyTorchSchedule &schedule, int32_t ranks) {
  constexpr plan::Time kUnit = 1'000'000;
  const schedule::Entry &entry = *schedule::find(schedule.name);
  PyTorchCase made{schedule, {}, {}};
  made.problem.ranks = ranks;
  made.problem.microbatches = 2 * ranks;
  made.problem.backward = entry.defaultBackward;
  schedule::Stage stage;
  stage.forward = stage.backwardInput = stage.backwardWeight = kUnit;
  stage.backward = 2 * kUnit;
  stage.boundary = kUnit / 20; // a byte in a picosecond
  made.problem.staticBytes.assign(size_t(ranks), 0);
  made.problem.workspace.assign(size_t(ranks), 0);
  made.problem.link.bandwidth = 1'000'000'000'000;
  made.problem.stages.assign(size_t(ranks) * size_t(schedule.chunks), stage);
  made.problem.rankOf = schedule::placementOf(entry, ranks, ranks * schedule.chunks);
  made.words = schedule::wordsOf(entry, made.problem, {});
  made.ideal = schedule::evaluate(made.problem, made.words, {.withSpan = false}).makespan;
  return made;
}

std::optional<Lowered> lower(mlir::MLIRContext &context, const PyTorchCase &each, Queues queues, std::string &errors) {
  context.loadDialect<pipe::PipeDialect>();
  mlir::ScopedDiagnosticHandler handler(&context,
                                        [&](mlir::Diagnostic &diagnostic) { errors += diagnostic.str() + "\n"; });
  RandomPipeline pipeline{each.problem, schedule::find(each.schedule.name), {}, {}, nameOf(queues)};
  if (pipeline.entry->block)
    pipeline.block = pipeline.entry->block(each.problem);
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::parseSourceString<mlir::ModuleOp>(pipeline.text(), &context);
  if (!module)
    return std::nullopt;
  return lowerPipeline(findPipeline(*module)).lowered;
}

std::optional<plan::Time> makespanOf(const plan::Variant &variant) {
  simulate::Result result;
  if (!simulate::simulate(variant, {}, result).ok())
    return std::nullopt;
  return result.makespan;
}

} // namespace pipec::test
