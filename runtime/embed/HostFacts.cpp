// What a host has to know of a plan.
#include "runtime/embed/HostRun.h"
#include "runtime/plan/Evaluation.h"
#include "runtime/plan/Layers.h"
#include "runtime/result/Outcome.h"
#include "runtime/simulate/Simulate.h"
#include "runtime/simulate/Steps.h"
#include "runtime/stage/library/Facts.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace pipec::embed {

using Json = nlohmann::ordered_json;

Status checkHosted(const plan::Plan &plan) {
  const plan::Variant &first = plan.variants.front();
  if (plan.shards() > 1)
    return Status::input("the plan's ranks have shards, which a host cannot run yet: compile it without "
                         "tensor_parallel");
  if (first.sharesStages())
    return Status::input("the plan's stages are on several ranks (schedule: burst), which a host cannot run yet");
  if (!first.jobs.empty())
    return Status::input("the plan has background jobs, which a host cannot run yet: compile it without jobs");
  if (first.copies > 1)
    return Status::input("the plan sums the gradients of two copies of each stage, which a host cannot yet");
  return {};
}

namespace {

bool any(const plan::Variant &variant, bool (*holds)(const plan::Operation &)) {
  return std::ranges::any_of(
      variant.programs, [&](const plan::Program &program) { return std::ranges::any_of(program.operations, holds); });
}

/// Whether a rank chooses while it runs when it computes the gradients of weights.
bool fills(const plan::Variant &variant) {
  return std::ranges::any_of(variant.programs, [](const plan::Program &program) {
    return std::ranges::any_of(program.queues,
                               [](const plan::Queue &queue) { return queue.priority == plan::Priority::Weights; });
  });
}

Json stagesOf(const plan::Plan &plan, int32_t rank) {
  Json all = Json::array();
  for (const PipecStageFacts &each : runtime::factsOf(plan, rank)) {
    Json gradients = Json::array(), sharded = Json::array();
    for (const plan::Layer &layer : plan.variants.front().layers)
      if (layer.stage == each.stage) {
        gradients.push_back(layer.gradients);
        sharded.push_back(layer.sharded);
      }
    all.push_back({{"stage", each.stage},
                   {"first_layer", each.first_layer},
                   {"layers", each.layers},
                   {"input_bytes", each.input_bytes},
                   {"output_bytes", each.output_bytes},
                   {"input_gradient_bytes", each.input_gradient_bytes},
                   {"output_gradient_bytes", each.output_gradient_bytes},
                   {"gradients", std::move(gradients)},
                   {"sharded", std::move(sharded)}});
  }
  return all;
}

/// The weights that several layers hold, and the ranks that have them; where these are several, they sum.
Json sharedOf(const plan::Variant &variant) {
  Json all = Json::array();
  for (const plan::SharedWeight &weight : variant.shared)
    all.push_back({{"layers", weight.layers},
                   {"stages", weight.stages},
                   {"ranks", plan::ranksOf(variant, weight)},
                   {"gradients", weight.gradients}});
  return all;
}

Status variantFacts(const plan::Variant &variant, Json &facts) {
  simulate::Result result;
  Status status = simulate::simulate(variant, {}, result);
  simulate::Options several;
  several.steps = 4; // the last one comes after its like
  std::vector<plan::Time> steps;
  if (status.ok())
    status = simulate::stepTimes(variant, several, steps);
  if (!status.ok())
    return status;
  Json peaks = Json::array(), activations = Json::array();
  double busy = 0;
  for (const simulate::PlaceResult &place : result.places) {
    peaks.push_back(place.peak);
    activations.push_back(place.peakActivation);
    busy += double(place.busy);
  }
  const double all = double(variant.certificate.span) * double(result.places.size());
  facts = {{"name", variant.name},
           {"schedule", variant.schedule},
           {"microbatches", variant.microbatches},
           {"span_ms", runtime::milliseconds(double(variant.certificate.span))},
           {"step_ms", runtime::milliseconds(double(steps.back()))},
           {"bubble_rate", all == 0 ? 0 : 1 - busy / all},
           {"peak_bytes", std::move(peaks)},
           {"peak_activation_bytes", std::move(activations)}};
  return {};
}

} // namespace

Status readFacts(const std::string &path, std::string &json) {
  plan::Plan plan;
  std::array<uint8_t, 32> hash{};
  if (Status status = runtime::readProved(path, plan, hash); !status.ok())
    return status;
  const plan::Variant &first = plan.variants.front();
  const Status hosted = checkHosted(plan), evaluates = plan::mayEvaluate(plan);
  Json facts{{"ranks", plan.ranks()},
             {"degree", std::max(plan.degree(), 1)},
             {"shards", plan.shards()},
             {"stage_count", first.stages},
             {"microbatches", first.microbatches},
             {"cut", first.cut},
             {"shared", sharedOf(first)},
             {"stages", Json::array()},
             {"updates", any(first, [](const plan::Operation &op) { return plan::does(op.kind, plan::kUpdate); })},
             {"split", std::ranges::any_of(plan.variants,
                                           [](const plan::Variant &variant) {
                                             return any(variant, [](const plan::Operation &op) {
                                               return op.kind == plan::Kind::BackwardInput;
                                             });
                                           })},
             {"parts", std::ranges::any_of(plan.variants,
                                           [](const plan::Variant &variant) {
                                             return any(variant, [](const plan::Operation &op) {
                                               return plan::isCompute(op.kind) && op.layers > 0;
                                             });
                                           })},
             {"fills", std::ranges::any_of(plan.variants, &fills)},
             {"shards_updates", std::ranges::any_of(first.layers, &plan::Layer::sharded)},
             {"overlaps", std::ranges::any_of(plan.variants, &simulate::overlaps)},
             {"global_norm", any(first, [](const plan::Operation &op) { return op.of == plan::Payload::Norm; })},
             {"variants", Json::array()},
             {"refused", hosted.ok() ? Json() : Json(hosted.message)},
             {"no_evaluation", evaluates.ok() ? Json() : Json(evaluates.message)}};
  for (int32_t rank = 0; rank < plan.ranks(); ++rank)
    facts["stages"].push_back(stagesOf(plan, rank));
  for (const plan::Variant &variant : plan.variants)
    if (Status status = variantFacts(variant, facts["variants"].emplace_back()); !status.ok())
      return status;
  json = facts.dump();
  return {};
}

} // namespace pipec::embed
