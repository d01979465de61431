#include "compiler/replicas/SpecReplicas.h"

#include "compiler/schedule/exchange/Policies.h"
#include "compiler/spec/Stages.h"

#include <algorithm>

namespace pipec {

using plan::Figure;

namespace {

schedule::CollectiveTimes timesOf(const spec::DataParallel &replicas) {
  if (!replicas.allReduce)
    return schedule::ringOf(replicas.degree.value, {replicas.link.latency, replicas.link.bandwidth});
  const auto of = [](const spec::CollectiveCost &cost) {
    return schedule::CollectiveTime{cost.start, cost.bandwidth, 1, 1};
  };
  const schedule::CollectiveTime whole = of(*replicas.allReduce);
  return {whole, replicas.reduceScatter ? of(*replicas.reduceScatter) : whole.half(),
          replicas.allGather ? of(*replicas.allGather) : whole.half()};
}

/// wholes: backwards may be whole, and take then what the spec says of one.
schedule::ExchangedLayer exchangedOf(const spec::Layer &layer, bool wholes) {
  schedule::ExchangedLayer made;
  const plan::Figures &own = layer.figures;
  made.forward = own[Figure::Forward];
  made.backwardInput = own[Figure::BackwardInput];
  made.backwardWeight = own[Figure::BackwardWeight];
  made.backward = own.has(Figure::Backward) && wholes ? own[Figure::Backward]
                                                      : own[Figure::BackwardInput] + own[Figure::BackwardWeight];
  made.update = own[Figure::Optimizer];
  made.tensors = layer.tensors;
  made.weights = own[own[Figure::Weights] > 0 ? Figure::Weights : Figure::Gradients];
  made.state = own[Figure::OptimizerState];
  return made;
}

/// A weight that ranks share is updated whole on each of them, so the others of its layer are too.
bool maySplitUpdates(const spec::Spec &spec) {
  const spec::DataParallel &replicas = spec.dataParallel;
  return spec.shared.empty() && (!replicas.shard || replicas.shard->value == spec::Shard::Optimizer);
}

/// Takes a shared weight out of what the replicas of a rank exchange by themselves: of the tensor that is as large,
/// else of the largest ones.
void takeOut(schedule::ExchangedLayer &layer, schedule::Bytes bytes) {
  layer.weights -= std::min(layer.weights, bytes);
  if (const auto same = std::find(layer.tensors.begin(), layer.tensors.end(), bytes); same != layer.tensors.end()) {
    layer.tensors.erase(same);
    return;
  }
  while (bytes > 0 && !layer.tensors.empty()) {
    const auto most = std::max_element(layer.tensors.begin(), layer.tensors.end());
    const schedule::Bytes taken = std::min(*most, bytes);
    bytes -= taken;
    if ((*most -= taken) == 0)
      layer.tensors.erase(most);
  }
}

/// Ranks that share a weight sum its gradients with all replicas of each other.
void takeOutShared(const schedule::Problem &problem, schedule::Replicas &replicas) {
  for (const schedule::SharedWeight &weight : problem.shared) {
    if (ranksOf(problem, weight).size() < 2)
      continue;
    int32_t first = 0;
    for (size_t s = 0; s != replicas.layers.size(); first += int32_t(replicas.layers[s++].size()))
      for (size_t l = 0; l != replicas.layers[s].size(); ++l)
        if (std::find(weight.layers.begin(), weight.layers.end(), first + int32_t(l)) != weight.layers.end())
          takeOut(replicas.layers[s][l], weight.gradients);
  }
  replicas.sharedTimes = sharedTimesOf(problem, replicas);
}

} // namespace

schedule::Replicas replicasOf(const spec::Spec &spec, const schedule::Problem &problem,
                              const std::vector<int64_t> &cut) {
  const spec::DataParallel &given = spec.dataParallel;
  schedule::Replicas made;
  made.degree = given.degree.value;
  made.times = timesOf(given);
  made.mayShard = maySplitUpdates(spec);
  made.sharesPort = given.sharesPort;
  made.round = given.round;
  if (spec.globalNorm.value)
    made.norm = schedule::normTimeOf(problem, given.degree.value, {given.link.latency, given.link.bandwidth});
  made.layers.resize(problem.stages.size());
  if (!spec.layers) {
    for (size_t s = 0; s != problem.stages.size(); ++s) {
      const schedule::Stage &stage = problem.stages[s];
      made.layers[s].push_back({stage.forward,
                                stage.backward,
                                stage.backwardInput,
                                stage.backwardWeight,
                                stage.optimizer,
                                {spec[Figure::Gradients][s]},
                                spec[Figure::Gradients][s],
                                spec[Figure::OptimizerState][s]});
    }
    takeOutShared(problem, made);
    return made;
  }
  const bool wholes = problem.backward == schedule::BackwardMode::Fused || problem.mixed;
  size_t entry = 0;
  int64_t used = 0; // layers of it
  for (size_t s = 0; s != problem.stages.size(); ++s) {
    schedule::Time updates = 0;
    for (int64_t i = 0; i != cut[s]; ++i) {
      made.layers[s].push_back(exchangedOf(spec.layers->entries[entry], wholes));
      updates += made.layers[s].back().update;
      if (++used == spec.layers->entries[entry].count) {
        ++entry;
        used = 0;
      }
    }
    // What a stage updates beside its layers comes with the last of them that have gradients.
    const auto last = std::find_if(made.layers[s].rbegin(), made.layers[s].rend(),
                                   [](const schedule::ExchangedLayer &layer) { return layer.gradients() > 0; });
    (last == made.layers[s].rend() ? made.layers[s].back() : *last).update += problem.stages[s].optimizer - updates;
  }
  takeOutShared(problem, made);
  return made;
}

schedule::MayExchange mayOf(const spec::Spec &spec) {
  const auto &given = spec.dataParallel.collective;
  const spec::Collective by = given ? given->value : spec::Collective::Auto;
  return {by != spec::Collective::Decoupled, by != spec::Collective::AllReduce};
}

bool mayShard(const spec::Spec &spec) {
  return !schedule::findPolicy(spec.dataParallel.policy.value) && mayOf(spec).decoupled && maySplitUpdates(spec);
}

spec::Spec ofOneReplica(spec::Spec spec) {
  const int32_t degree = spec.dataParallel.degree.value;
  const auto share = [&](int64_t state) { return (state + degree - 1) / degree; };
  if (degree > 1 && mayShard(spec)) {
    if (spec.layers) {
      for (spec::Layer &layer : spec.layers->entries)
        if (layer.figures[Figure::Gradients] > 0)
          layer.figures.set(Figure::OptimizerState, share(layer.figures[Figure::OptimizerState]));
      std::vector<spec::Diagnostic> none; // less memory than before is never wrong
      if (spec.stages > 0)
        spec::setStages(spec, spec.stages, none);
    } else {
      const spec::PerStage always = spec[Figure::Static];
      spec::PerStage &least = spec.figures.set(Figure::Static);
      for (const spec::PerStage *each : {&spec[Figure::OptimizerState], &spec[Figure::Gradients]})
        if (each->list && !least.list)
          least = {std::vector<int64_t>(each->values.size()),
                   std::vector<spec::Mark>(each->values.size(), always.markOf(0)), always.mark, true};
      for (size_t s = 0; s != least.values.size(); ++s) {
        const int64_t state = spec[Figure::Gradients][s] > 0 ? spec[Figure::OptimizerState][s] : 0;
        least.values[s] = always[s] - state + share(state);
      }
      spec.figures.reset(Figure::OptimizerState);
    }
  }
  spec.dataParallel.degree.value = 1;
  return spec;
}

schedule::Problem withWholeState(schedule::Problem problem, const spec::Spec &spec, const std::vector<int64_t> &cut) {
  if (!mayShard(spec) || problem.staticBytes.empty())
    return problem;
  const std::vector<schedule::Bytes> saved = savedByRank(replicasOf(spec, problem, cut), problem);
  for (size_t rank = 0; rank != saved.size(); ++rank)
    problem.staticBytes[rank] += saved[rank];
  return problem;
}

std::vector<schedule::Bytes> savedByRank(const schedule::Replicas &replicas, const schedule::Problem &problem) {
  std::vector<schedule::Bytes> saved(size_t(problem.ranks));
  for (size_t s = 0; s != replicas.layers.size(); ++s)
    for (const schedule::ExchangedLayer &layer : replicas.layers[s])
      saved[size_t(problem.rankOf[s])] += layer.gradients() > 0 ? replicas.savedOf(layer) : 0;
  return saved;
}

schedule::LeastProblem leastOfReplica(schedule::Problem problem, const spec::Spec &spec) {
  for (schedule::Stage &stage : problem.stages)
    stage.optimizer = 0;
  bool all = true; // layers are trained
  if (spec.layers)
    for (const spec::Layer &each : spec.layers->entries)
      all &= each.figures[Figure::Gradients] > 0;
  else
    for (const int64_t bytes : spec[Figure::Gradients].values)
      all &= bytes > 0;
  if (!all)
    problem.globalNorm.reset();
  problem.cuts = true;
  return schedule::LeastProblem::proven(std::move(problem));
}

} // namespace pipec
