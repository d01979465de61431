#include "compiler/driver/CompileReplicas.h"

#include "compiler/driver/DesignLevel.h"
#include "compiler/emit/EmitPlan.h"
#include "compiler/program/ExchangeAttrs.h"
#include "compiler/program/ProgramText.h"
#include "compiler/schedule/catalogue/Catalogue.h"

using namespace mlir;

namespace pipec {

using plan::Figure;

static constexpr int64_t kMostLayers = 4096, kMostTensors = 1 << 16;

LogicalResult checkPolicy(const spec::Spec &spec, MLIRContext &context) {
  const spec::DataParallel &given = spec.dataParallel;
  const schedule::Policy *policy = schedule::findPolicy(given.policy.value);
  const auto error = [&](const spec::Mark &mark) { return emitError(locationOf(spec, mark, context)); };
  for (const auto &[name, value] : given.parameters) {
    const auto has = [&](std::string_view each) { return each == name; };
    if (!policy || llvm::none_of(policy->parameters, has))
      return error(value.mark) << "data_parallel.policy." << name << ": " << given.policy.value
                               << " has no such parameter";
    if (value.value < 0 && !policy->triesBundles)
      return error(value.mark) << "data_parallel.policy." << name << ": expected a size, found best, which dear and "
                               << "dear-queue take";
  }
  if (!policy)
    return success();
  if (given.collective && given.collective->value != spec::Collective::Auto &&
      (given.collective->value == spec::Collective::Decoupled) != policy->decoupled)
    return error(given.collective->mark) << "data_parallel.collective: " << policy->name << " sums by "
                                         << (policy->decoupled ? "decoupled" : "all_reduce") << ", found "
                                         << (policy->decoupled ? "all_reduce" : "decoupled");
  if (given.fusion)
    return error(given.fusion->mark) << "data_parallel.fusion: " << policy->name << " has bundles of its own";
  if (given.shard && given.shard->value == spec::Shard::Optimizer)
    return error(given.shard->mark) << "data_parallel.shard: " << policy->name
                                    << " updates whole layers, found optimizer";
  return success();
}

LogicalResult checkExchange(const spec::Spec &spec, MLIRContext &context) {
  const spec::DataParallel &given = spec.dataParallel;
  const auto error = [&](const spec::Mark &mark) { return emitError(locationOf(spec, mark, context)); };
  if (spec.isBurst())
    return error(spec.schedule.mark) << "schedule: burst has each layer on as many ranks as pay and sums their "
                                        "gradients itself: leave out what is of replicas, or name another schedule";
  if (given.degree.value < 2)
    return error(given.degree.mark.line > 1 ? given.degree.mark : given.mark)
           << "data_parallel.degree: expected 2 replicas or more, found " << given.degree.value;
  if (const schedule::Entry *entry = schedule::find(spec.schedule.name); entry && entry->copies() > 1) {
    InFlightDiagnostic refused = error(given.degree.mark)
                                 << "data_parallel.degree: replicas of two copies are not supported yet: take a "
                                    "schedule of one copy, or leave data_parallel out";
    refused.attachNote(locationOf(spec, spec.schedule.mark, context))
        << "schedule '" << spec.schedule.name << "' has two copies of each stage";
    return refused;
  }
  if (spec.slices.value > 1)
    return error(given.degree.mark) << "data_parallel.degree: replicas of slices are not supported yet";
  if (spec.weights.value == spec::Weights::Fill)
    return error(spec.weights.mark) << "weights: fill with replicas is not supported yet";
  if (spec.layers && spec.layers->count() > kMostLayers)
    return error(spec.layers->mark) << "layers: expected at most " << kMostLayers << " with replicas, found "
                                    << spec.layers->count();
  size_t tensors = 0;
  for (size_t i = 0; spec.layers && i != spec.layers->entries.size(); ++i)
    tensors += spec.layers->entries[i].tensors.size() * size_t(spec.layers->entries[i].count);
  if (tensors > size_t(kMostTensors))
    return error(spec.layers->mark) << "layers: expected at most " << kMostTensors << " tensors with replicas, found "
                                    << tensors;
  const auto isPositive = [](int64_t bytes) { return bytes > 0; };
  const bool any = spec.layers
                       ? llvm::any_of(spec.layers->entries,
                                      [](const spec::Layer &each) { return each.figures[Figure::Gradients] > 0; })
                       : llvm::any_of(spec[Figure::Gradients].values, isPositive);
  if (!any)
    return error(given.mark) << "data_parallel: there is nothing to exchange: give "
                             << (spec.layers ? "layers[].gradients" : "tensors.gradients");
  return success();
}

LogicalResult checkPlans(const std::vector<spec::Spec> &specs, MLIRContext &context, Sharding &sharding) {
  bool all = true;
  const spec::Spec *insists = nullptr; // on a share of the optimizer's state
  for (const spec::Spec &spec : specs) {
    const spec::DataParallel &given = spec.dataParallel;
    const auto error = [&](const spec::Mark &mark) { return emitError(locationOf(spec, mark, context)); };
    if (failed(checkPolicy(spec, context)))
      return failure();
    if (const schedule::Policy *policy = schedule::findPolicy(given.policy.value); policy && !policy->compiles)
      return error(given.policy.mark) << "data_parallel.policy: " << policy->name
                                      << " leaves gathers and updates to the next step's forward, so there is no plan "
                                         "of a step: dear-queue issues them all in their own";
    if (given.degree.value != specs.front().dataParallel.degree.value)
      return error(given.degree.mark) << "data_parallel.degree: expected that of the other variants, "
                                      << specs.front().dataParallel.degree.value << ", found " << given.degree.value;
    if (spec.measured)
      return error(given.mark) << "data_parallel: a plan of replicas is not made anew for what was measured yet";
    all &= mayShard(spec);
    if (mayShard(spec) && given.shard)
      insists = &spec;
  }
  sharding = specs.size() == 1 ? Sharding::Any : all ? Sharding::All : Sharding::None;
  if (sharding != Sharding::None || !insists)
    return success();
  return emitError(locationOf(*insists, insists->dataParallel.shard->mark, context))
         << "data_parallel.shard: variants shard the same layers, found optimizer beside a variant that updates whole "
            "ones";
}

namespace {

/// Its bounds are the least of what the spec leaves open: placements, stages that are recomputed.
plan::Certificate certificateOf(const spec::Spec &spec, const Lowered &lowered, const schedule::LeastTimes &own,
                                const std::vector<schedule::Problem> &alternatives, MLIRContext &context) {
  plan::Certificate made = emit::certificate(lowered.result.makespan, lowered.span, own);
  schedule::LeastWays ways(1);
  for (const schedule::Problem &each : alternatives)
    ways.front().push_back(leastOfReplica(each, spec));
  emit::widen(made, ways);
  if (!spec.recomputed.chooses)
    return made;
  ways = choicesOf(spec, context);
  for (schedule::LeastCases &cases : ways)
    for (schedule::LeastProblem &each : cases)
      each = leastOfReplica(each.problem(), spec);
  emit::widen(made, ways);
  return made;
}

} // namespace

Code compileReplicas(const spec::Spec &spec, const ReplicasOptions &options, MLIRContext &context, Made &made) {
  const Location place = locationOf(spec, spec.dataParallel.mark, context);
  const std::vector<int64_t> cut(made.variant.cut.begin(), made.variant.cut.end());
  const schedule::Problem problem = withWholeState(made.problem, spec, cut);
  if (made.placesTransfers) {
    emitError(locationOf(spec, spec.schedule.mark, context))
        << "schedule: an order file that places transfers is not supported with replicas yet: leave them out of it";
    return Code::Input;
  }
  const PolicyExchanges exchanges(spec, problem, made.words, cut, context, options.stop);
  const PolicyExchange chosen = exchanges.chosen(options.sharding);
  if (!chosen.found()) {
    emitError(place) << "data_parallel.policy: " << spec.dataParallel.policy.value << " " << chosen.wrong;
    return Code::Check;
  }
  Design design;
  design.problem = problem;
  design.order = {chosen.words, problem.rankOf, problem.microbatches, problem.backward, problem.backwardGroup, {}};
  OwningOpRef<ModuleOp> module = designLevel(spec, design, context);
  if (!module)
    return Code::Input;
  pipe::PipelineOp pipeline = findPipeline(*module);
  pipeline.setReplicasAttr(attributeOf(chosen.replicas, context));
  pipeline.setExchangeAttr(attributeOf(chosen.exchange, context));
  if (options.until == Stage::Design) {
    made.text = textOf(*module);
    return Code::Ok;
  }
  Lowering lowering = lowerPipeline(pipeline, options.lower);
  if (lowering.code != Code::Ok)
    return lowering.code;
  if (options.until == Stage::Programs) {
    made.programs = std::make_shared<Programs>(std::move(module), std::move(lowering));
    return Code::Ok;
  }
  plan::Variant &variant = made.variant;
  lowering.lowered->variant.name = variant.name;
  lowering.lowered->variant.schedule = variant.schedule;
  lowering.lowered->variant.cut = variant.cut;
  variant = std::move(lowering.lowered->variant);
  variant.certificate = certificateOf(spec, *lowering.lowered, exchanges.boundsOf(chosen), made.alternatives, context);
  made.walk = std::move(lowering.lowered->result);
  made.problem = problem;
  made.words = chosen.words;
  return Code::Ok;
}

} // namespace pipec
