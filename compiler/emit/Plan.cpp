#include "compiler/emit/Plan.h"

#include "compiler/emit/Roll.h"
#include "compiler/schedule/Bounds.h"

namespace pipec::emit {

plan::Certificate certificate(const Lowered &lowered, const schedule::Problem &problem) {
  schedule::Bounded bounds = schedule::lowerBounds(problem);
  plan::Certificate made;
  made.makespan = lowered.result.makespan;
  made.span = lowered.span;
  made.lowerBound = bounds.makespan;
  made.spanLowerBound = bounds.span;
  made.bound = static_cast<plan::Bound>(bounds.makespanArgument);
  made.spanBound = static_cast<plan::Bound>(bounds.spanArgument);
  return made;
}

plan::Variant variant(Lowered &lowered, const schedule::Problem &problem, std::string name) {
  plan::Variant made = std::move(lowered.lowering.variant);
  made.name = std::move(name);
  made.certificate = certificate(lowered, problem);
  for (plan::Program &program : made.programs)
    roll(program);
  return made;
}

plan::Plan plan(std::vector<plan::Variant> variants, uint64_t specHash, std::vector<uint8_t> provider) {
  plan::Plan made;
  made.specHash = specHash;
  made.provider = std::move(provider);
  made.variants = std::move(variants);
  for (int32_t rank = 0; rank != made.ranks(); ++rank)
    made.processes.push_back({rank, 0, 0});
  return made;
}

} // namespace pipec::emit
