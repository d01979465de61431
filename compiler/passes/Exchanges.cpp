#include "compiler/passes/Exchanges.h"

#include "compiler/passes/Lowered.h"
#include "compiler/program/Dependences.h"
#include "compiler/program/ExchangeGradients.h"
#include "runtime/plan/Limits.h"

#include <algorithm>

using namespace mlir;

namespace pipec {

ProgramSet Exchanges::setOf(const schedule::Replicas &replicas, const schedule::Exchange &exchange) const {
  ProgramSet set = buildPrograms(problem, words, places, {communicator, false});
  exchangeGradients(set, replicas, exchange);
  return set;
}

/// The programs with their transfers.
std::optional<plan::Variant> Exchanges::connected(ProgramSet set) const {
  if (failed(addTransfers(problem, set)))
    return std::nullopt;
  if (!set.transfers.empty()) {
    Ordered ordered(set);
    if (!ordered.sorted)
      return std::nullopt;
    ordered.dependences.arrange(set, ordered.order);
  }
  return lower(set, {.kept = false});
}

std::optional<plan::Variant> Exchanges::programsOf(const schedule::Replicas &replicas,
                                                   const schedule::Exchange &exchange) const {
  return connected(setOf(replicas, exchange));
}

plan::Time Exchanges::spanOf(const schedule::Replicas &replicas, const schedule::Exchange &exchange) const {
  return spanOf(setOf(replicas, exchange));
}

plan::Time Exchanges::spanOf(ProgramSet set) const {
  const std::optional<plan::Variant> variant = connected(std::move(set));
  simulate::Result result;
  plan::Time span = 0;
  if (!variant || !simulate::span(*variant, span, result).ok() || span > limits::kTime)
    return kNever;
  for (const plan::Program &program : variant->programs)
    if (const plan::Bytes limit = variant->limitOf(program);
        limit != 0 && result.places[size_t(program.rank)].peak > limit)
      return kNever;
  return span;
}

std::vector<int32_t> Exchanges::tails() const {
  std::vector<int32_t> all;
  for (const schedule::Word &word : words) {
    int32_t &own = all.emplace_back();
    for (auto op = word.rbegin(); op != word.rend() && op->letter != schedule::Letter::F; ++op)
      own += op->letter == schedule::Letter::W;
  }
  return *std::max_element(all.begin(), all.end()) > 1 ? all : std::vector<int32_t>();
}

schedule::Ready Exchanges::readyOf(schedule::Replicas replicas, const std::vector<int32_t> &tails) const {
  replicas.times = {};
  replicas.sharedTimes.assign(replicas.sharedTimes.size(), 0);
  schedule::Exchange exchange;
  exchange.updates = schedule::Updates::Stages;
  exchange.tails = tails;
  const std::vector<std::vector<int32_t>> stages = problem.stagesByRank();
  for (const std::vector<int32_t> &own : stages) {
    std::vector<schedule::Collective> &queue = exchange.queues.emplace_back();
    for (const int32_t stage : own) // in any order: they take no time
      for (auto layer = int32_t(replicas.layers[size_t(stage)].size()) - 1; layer >= 0; --layer)
        queue.push_back({plan::Kind::AllReduce, stage, layer, 1, layer, layer + 1, 0});
  }
  schedule::Ready ready;
  for (const auto &layers : replicas.layers)
    ready.emplace_back(layers.size());
  const std::optional<plan::Variant> variant = programsOf(replicas, exchange);
  simulate::Options options;
  options.steps = 8;
  options.untilRepeats = true;
  options.keepTimes = true;
  simulate::Result result;
  if (!variant || !simulate::simulate(*variant, options, result).ok())
    return ready;
  for (size_t rank = 0; rank != stages.size(); ++rank) {
    const plan::Program &program = variant->programs[rank];
    const simulate::PlaceResult &own = result.places[rank];
    size_t index = 0;
    for (plan::Cursor cursor(program); !cursor.done(); cursor.next(), ++index) {
      const plan::Operation &operation = *cursor.at().operation;
      if (!plan::does(operation.kind, plan::kWeightGradient))
        continue;
      std::vector<schedule::Time> &layers = ready[size_t(operation.stage)];
      const size_t last = operation.layers == 0 ? layers.size() : size_t(operation.firstLayer + operation.layers);
      for (size_t layer = size_t(operation.firstLayer); layer != last; ++layer)
        layers[layer] = std::max(layers[layer], own.times.back()[index].second - own.firstStart.back());
    }
  }
  return ready;
}

} // namespace pipec
