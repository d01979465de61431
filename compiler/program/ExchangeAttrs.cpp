#include "compiler/program/ExchangeAttrs.h"

#include "compiler/program/Programs.h"

using namespace mlir;

namespace pipec {

using namespace pipe;

//===----------------------------------------------------------------------===//
// Replicas
//===----------------------------------------------------------------------===//

static schedule::CollectiveTime timeOf(CollectiveTimeAttr time) {
  return {time.getStart(), time.getBandwidth(), time.getHops(), time.getParts()};
}

static schedule::ExchangedLayer layerOf(LayerAttr layer) {
  schedule::ExchangedLayer made;
  made.forward = layer.getForward();
  made.backward = layer.getBackward();
  made.backwardInput = layer.getBackwardInput();
  made.backwardWeight = layer.getBackwardWeight();
  made.update = layer.getUpdate();
  if (layer.getGradients())
    made.tensors = layer.getGradients().asArrayRef().vec();
  made.weights = layer.getWeights();
  made.state = layer.getState();
  return made;
}

std::optional<schedule::Replicas> replicasOf(PipelineOp pipeline) {
  if (!pipeline.getReplicas())
    return std::nullopt;
  const ReplicasAttr given = *pipeline.getReplicas();
  schedule::Replicas made;
  made.degree = given.getDegree();
  made.times = {timeOf(given.getAllReduce()), timeOf(given.getReduceScatter()), timeOf(given.getAllGather())};
  made.mayShard = given.getMayShard();
  made.sharesPort = given.getSharesPort();
  made.round = given.getRound();
  if (given.getNorm() >= 0)
    made.norm = given.getNorm();
  made.sharedTimes = schedule::sharedTimesOf(problemOf(pipeline), made);
  for (auto stage : given.getLayers().getAsRange<ArrayAttr>()) {
    std::vector<schedule::ExchangedLayer> &own = made.layers.emplace_back();
    for (auto layer : stage.getAsRange<LayerAttr>())
      own.push_back(layerOf(layer));
  }
  return made;
}

static LayerAttr attributeOf(const schedule::ExchangedLayer &layer, MLIRContext &context) {
  return LayerAttr::get(&context, layer.forward, layer.backward, layer.backwardInput, layer.backwardWeight,
                        layer.update,
                        layer.tensors.empty() ? DenseI64ArrayAttr() : DenseI64ArrayAttr::get(&context, layer.tensors),
                        layer.weights, layer.state);
}

ReplicasAttr attributeOf(const schedule::Replicas &replicas, MLIRContext &context) {
  const auto timeOf = [&](const schedule::CollectiveTime &time) {
    return CollectiveTimeAttr::get(&context, time.start, time.bandwidth, time.hops, time.parts);
  };
  SmallVector<Attribute> stages;
  for (const std::vector<schedule::ExchangedLayer> &stage : replicas.layers) {
    SmallVector<Attribute> layers;
    for (const schedule::ExchangedLayer &layer : stage)
      layers.push_back(attributeOf(layer, context));
    stages.push_back(ArrayAttr::get(&context, layers));
  }
  return ReplicasAttr::get(&context, replicas.degree, timeOf(replicas.times.allReduce),
                           timeOf(replicas.times.reduceScatter), timeOf(replicas.times.allGather), replicas.mayShard,
                           replicas.sharesPort, replicas.round, replicas.norm.value_or(-1),
                           ArrayAttr::get(&context, stages));
}

//===----------------------------------------------------------------------===//
// Exchange
//===----------------------------------------------------------------------===//

static schedule::Collective collectiveOf(CollectiveAttr collective) {
  return {static_cast<plan::Kind>(collective.getKind()),
          collective.getStage(),
          collective.getFirst(),
          collective.getEnd() - collective.getFirst(),
          collective.getBeginByte(),
          collective.getEndByte(),
          collective.getRounds()};
}

std::optional<schedule::Exchange> exchangeOf(PipelineOp pipeline) {
  if (!pipeline.getExchange())
    return std::nullopt;
  const ExchangeAttr given = *pipeline.getExchange();
  schedule::Exchange made;
  made.updates = static_cast<schedule::Updates>(given.getUpdates());
  made.sharded = given.getSharded();
  made.atEnd = given.getAtEnd();
  made.barrier = given.getBarrier();
  made.ahead = given.getAhead();
  if (given.getTails())
    made.tails = given.getTails().asArrayRef().vec();
  for (auto rank : given.getQueues().getAsRange<ArrayAttr>()) {
    std::vector<schedule::Collective> &queue = made.queues.emplace_back();
    for (auto collective : rank.getAsRange<CollectiveAttr>())
      queue.push_back(collectiveOf(collective));
  }
  return made;
}

ExchangeAttr attributeOf(const schedule::Exchange &exchange, MLIRContext &context) {
  SmallVector<Attribute> ranks;
  for (const std::vector<schedule::Collective> &queue : exchange.queues) {
    SmallVector<Attribute> own;
    for (const schedule::Collective &c : queue)
      own.push_back(CollectiveAttr::get(&context, static_cast<CollectiveKind>(c.kind), c.stage, c.firstLayer,
                                        c.firstLayer + c.layers, c.begin, c.end, c.rounds));
    ranks.push_back(ArrayAttr::get(&context, own));
  }
  return ExchangeAttr::get(
      &context, static_cast<Updates>(exchange.updates), exchange.sharded, exchange.atEnd, exchange.barrier,
      exchange.ahead, exchange.tails.empty() ? DenseI32ArrayAttr() : DenseI32ArrayAttr::get(&context, exchange.tails),
      ArrayAttr::get(&context, ranks));
}

} // namespace pipec
