// The order in which the rules are asked, and what several of them ask of a program.
#include "runtime/plan/rules/Rules.h"

#include "runtime/plan/rules/LayerWalk.h"
#include "runtime/plan/rules/RankWalk.h"

#include <fmt/format.h>

namespace pipec::plan {
namespace {

using namespace rules;

/// "P9: …" → "P9: variant 2: …", where there are several.
Status inVariant(Status status, const Plan &plan, size_t index) {
  const size_t label = status.message.find(": ");
  if (!status.ok() && plan.variants.size() > 1 && label != std::string::npos)
    status.message.insert(label + 2, fmt::format("variant {}: ", index));
  return status;
}

template <typename Check> Status forEachVariant(const Plan &plan, Check check) {
  for (size_t i = 0; i < plan.variants.size(); ++i)
    if (Status status = check(plan.variants[i]); !status.ok())
      return inVariant(std::move(status), plan, i);
  return {};
}

Status checkProgram(const Variant &variant, const Program &program) {
  const Facts facts = factsOf(program);
  if (Status status = rings(program, facts); !status.ok())
    return status;
  if (Status status = microbatches(variant, program, facts); !status.ok())
    return status;
  if (Status status = waitCounts(program, facts); !status.ok())
    return status;
  return waitOrder(program);
}

} // namespace

namespace rules {

Facts factsOf(const Program &program) {
  Facts facts;
  facts.trips.resize(program.instructions.size());
  facts.queue.resize(program.queues.size());
  facts.operation.resize(program.operations.size());
  for (const Segment &segment : program.step)
    for (uint32_t i = segment.first; i < segment.first + segment.count; ++i) {
      facts.trips[i] = segment.trips;
      facts.queue[program.instructions[i].queue] += segment.trips;
      facts.operation[program.instructions[i].operation] += segment.trips;
    }
  return facts;
}

std::vector<int32_t> rankOfStages(const Variant &variant) {
  std::vector<int32_t> ranks(size_t(variant.stages), -1);
  for (const Program &program : variant.programs)
    for (const int32_t stage : program.stages)
      ranks[size_t(stage)] = program.rank;
  return ranks;
}

} // namespace rules

Status checkVariant(const Variant &variant) {
  for (const auto rule : {onlySupported, names, variantSizes, shardCount, shardsSupported, layerSizes, stageSizes,
                          stages, certificate, jobs, sharedSizes})
    if (Status status = rule(variant); !status.ok())
      return status;
  const StageLayers layers(variant);
  for (const Program &program : variant.programs) {
    if (Status status = queues(variant, program); !status.ok())
      return status;
    if (Status status = operations(variant, program, layers); !status.ok())
      return status;
    if (Status status = streams(program); !status.ok())
      return status;
    if (Status status = instructions(program); !status.ok())
      return status;
    if (Status status = pairs(program); !status.ok())
      return status;
    if (Status status = windows(variant, program); !status.ok())
      return status;
  }
  for (const auto rule : {ownRows, portions, lengths})
    if (Status status = rule(variant); !status.ok())
      return status;
  for (const Program &program : variant.programs)
    if (Status status = checkProgram(variant, program); !status.ok())
      return status;
  return {};
}

Status checkTables(const Plan &plan) {
  if (Status status = planSizes(plan); !status.ok())
    return status;
  if (Status status = processes(plan); !status.ok())
    return status;
  if (Status status = provider(plan); !status.ok())
    return status;
  if (Status status = sameJobs(plan); !status.ok())
    return status;
  if (Status status = forEachVariant(plan, checkVariant); !status.ok())
    return status;
  return groups(plan);
}

Status checkWhole(const Variant &variant) {
  std::vector<Facts> facts;
  facts.reserve(variant.programs.size());
  for (const Program &program : variant.programs)
    facts.push_back(factsOf(program));
  const StageLayers layers(variant);
  if (Status status = unitsOnce(variant); !status.ok())
    return status;
  if (Status status = workCounts(variant, facts, layers); !status.ok())
    return status;
  if (Status status = exchange(variant, facts, layers); !status.ok())
    return status;
  if (Status status = collectives(variant, facts); !status.ok())
    return status;
  if (Status status = copySums(variant, facts); !status.ok())
    return status;
  if (Status status = sharedSums(variant, facts); !status.ok())
    return status;
  if (Status status = reshards(variant, facts); !status.ok())
    return status;
  if (Status status = oneOrder(variant); !status.ok())
    return status;
  if (Status status = neighbours(variant); !status.ok())
    return status;
  if (Status status = transferCounts(variant, facts); !status.ok())
    return status;
  if (Status status = released(variant, facts); !status.ok())
    return status;
  if (Status status = transferOrder(variant); !status.ok())
    return status;
  if (Status status = firstUse(variant); !status.ok())
    return status;
  for (size_t r = 0; r < variant.programs.size(); ++r) {
    const Program &program = variant.programs[r];
    if (Status status = RankWalk(variant, program, facts[r], layers).run(); !status.ok())
      return status;
    if (layers.empty())
      continue;
    if (Status status = LayerWalk(program, facts[r], layers).run(); !status.ok())
      return status;
  }
  return shardPeaks(variant);
}

Status checkWhole(const Plan &plan) {
  if (Status status = sameSplits(plan); !status.ok())
    return status;
  return forEachVariant(plan, [](const Variant &variant) { return checkWhole(variant); });
}

} // namespace pipec::plan
