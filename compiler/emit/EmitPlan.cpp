#include "compiler/emit/EmitPlan.h"

#include "compiler/schedule/bounds/Bounds.h"

namespace pipec::emit {

// The two enumerations are one list; the plan's stands in the file format.
static_assert(int(schedule::Argument::Exact) == int(plan::Bound::Exact) &&
              int(schedule::Argument::LastDevice) == int(plan::Bound::LastDevice) &&
              int(schedule::Argument::Area) == int(plan::Bound::Area) &&
              int(schedule::Argument::MemoryChain) == int(plan::Bound::MemoryChain) &&
              int(schedule::Argument::WarmUp) == int(plan::Bound::WarmUp) &&
              int(schedule::Argument::Work) == int(plan::Bound::Work) &&
              int(schedule::Argument::CriticalPath) == int(plan::Bound::CriticalPath));

static void takeMakespan(schedule::Bounded &bounds, const schedule::Bounded &from, bool isBetter) {
  if (!isBetter)
    return;
  bounds.makespan = from.makespan;
  bounds.makespanArgument = from.makespanArgument;
}

static void takeSpan(schedule::Bounded &bounds, const schedule::Bounded &from, bool isBetter) {
  if (!isBetter)
    return;
  bounds.span = from.span;
  bounds.spanArgument = from.spanArgument;
}

plan::Certificate certificate(const Lowered &lowered, const schedule::Problem &problem,
                              const Alternatives &alternatives) {
  const schedule::Bounded own = schedule::lowerBounds(problem);
  schedule::Bounded bounds = own;
  for (size_t i = 0; i != alternatives.size(); ++i) {
    schedule::Bounded least = own;
    for (const schedule::Problem &other : alternatives[i]) {
      const schedule::Bounded theirs = schedule::lowerBounds(other);
      takeMakespan(least, theirs, theirs.makespan < least.makespan);
      takeSpan(least, theirs, theirs.span < least.span);
    }
    takeMakespan(bounds, least, i == 0 || least.makespan > bounds.makespan);
    takeSpan(bounds, least, i == 0 || least.span > bounds.span);
  }
  plan::Certificate made;
  made.makespan = lowered.result.makespan;
  made.span = lowered.span;
  made.lowerBound = bounds.makespan;
  made.spanLowerBound = bounds.span;
  made.bound = static_cast<plan::Bound>(bounds.makespanArgument);
  made.spanBound = static_cast<plan::Bound>(bounds.spanArgument);
  return made;
}

plan::Variant variant(Lowered &lowered, const schedule::Problem &problem, const Alternatives &alternatives,
                      std::string name) {
  plan::Variant made = std::move(lowered.variant);
  made.name = std::move(name);
  made.certificate = certificate(lowered, problem, alternatives);
  return made;
}

plan::Plan plan(std::vector<plan::Variant> variants, uint64_t specHash, std::vector<uint8_t> provider) {
  plan::Plan made;
  made.specHash = specHash;
  made.provider = std::move(provider);
  made.variants = std::move(variants);
  made.groups = plan::groupsOf(made.variants);
  for (int32_t rank = 0; rank != made.ranks(); ++rank)
    made.processes.push_back({rank, 0, 0});
  return made;
}

} // namespace pipec::emit
