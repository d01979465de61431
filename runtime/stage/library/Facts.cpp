// Costs, sizes and boundaries, operation by operation; layers from the cut.
#include "runtime/stage/library/Facts.h"

#include "runtime/plan/Layers.h"
#include "runtime/plan/Samples.h"
#include "runtime/plan/TransferBuffers.h"

#include <algorithm>
#include <utility>

namespace pipec::runtime {

using plan::Kind;
using plan::Payload;

/// Adds what `op` says of its stage: the largest where variants differ.
static void add(const plan::Operation &op, PipecStageFacts &facts) {
  auto raise = [](int64_t &to, int64_t value) { to = std::max(to, value); };
  raise(facts.activation_bytes, op.activation);
  if ((plan::rowOf(op.kind).holds & plan::kContext) != 0) // of what a W gives back B may have made a part
    raise(facts.context_bytes, op.context);
  // Forward comes in and backward goes out at the stage's beginning; the other two at its end.
  if (plan::isTransfer(op.kind)) {
    const bool forward = op.of == Payload::Forward, begins = (plan::receives(op.kind)) == forward;
    raise(begins ? (forward ? facts.input_bytes : facts.input_gradient_bytes)
                 : (forward ? facts.output_bytes : facts.output_gradient_bytes),
          op.bytes);
  }
  constexpr std::pair<Kind, int64_t PipecStageFacts::*> kTimes[] = {
      {Kind::Forward, &PipecStageFacts::forward_time},
      {Kind::BackwardInput, &PipecStageFacts::backward_input_time},
      {Kind::BackwardWeight, &PipecStageFacts::backward_weight_time},
      {Kind::Backward, &PipecStageFacts::backward_time},
      {Kind::Optimizer, &PipecStageFacts::optimizer_time}};
  for (const auto &[kind, time] : kTimes)
    if (kind == op.kind)
      raise(facts.*time, op.cost);
}

static void add(const plan::SampleBuffer &buffer, PipecStageFacts &facts) {
  const bool begins = (buffer.direction == plan::Direction::Recv) == (buffer.of == Payload::Forward);
  const int64_t bytes = buffer.samples * buffer.sample; // the same of both directions
  (begins ? facts.input_bytes : facts.output_bytes) = bytes;
  (begins ? facts.input_gradient_bytes : facts.output_gradient_bytes) = bytes;
}

/// What an operation takes and holds on a shard.
static plan::Operation wholeOf(plan::Operation operation, const plan::OwnCost &own) {
  if (plan::isTransfer(operation.kind))
    return operation;
  operation.cost += own.before + own.after;
  operation.activation = own.activation;
  operation.context = own.context;
  return operation;
}

std::vector<PipecStageFacts> factsOf(const plan::Plan &plan, int32_t rank, int32_t shard) {
  std::vector<PipecStageFacts> all;
  const plan::Variant &first = plan.variants.front();
  const std::vector<int32_t> widths = first.widths();
  for (int32_t stage : first.programs[size_t(rank)].stages) {
    PipecStageFacts &facts = all.emplace_back();
    facts.size = sizeof(PipecStageFacts);
    facts.stage = stage;
    const plan::Layers layers = plan::layersOf(first, stage); // all variants have the same cut
    facts.first_layer = layers.first;
    facts.layers = layers.count;
    facts.width = first.sharesStages() ? widths[size_t(stage)] : 1;
    facts.member = first.sharesStages() ? rank : 0; // a stage is on the first ranks
    facts.batch = first.batch;
    facts.samples = plan::samplesOf(facts.batch, facts.width, facts.member);
  }
  for (const plan::Variant &variant : plan.variants) {
    const plan::Own *own = variant.ownOf(size_t(rank * variant.shards() + shard));
    const std::vector<plan::Operation> &operations = variant.programs[size_t(rank)].operations;
    for (size_t i = 0; i < operations.size(); ++i)
      for (PipecStageFacts &facts : all)
        if (facts.stage == operations[i].stage)
          add(own ? wholeOf(operations[i], own->operations[i]) : operations[i], facts);
    for (const plan::SampleBuffer &buffer : plan::sampleBuffers(variant, variant.programs[size_t(rank)]))
      for (PipecStageFacts &facts : all)
        if (facts.stage == buffer.stage)
          add(buffer, facts);
  }
  return all;
}

int64_t microbatchesOf(const plan::Plan &plan) {
  int64_t most = 0;
  for (const plan::Variant &variant : plan.variants)
    most = std::max<int64_t>(most, variant.microbatches);
  return most;
}

} // namespace pipec::runtime
