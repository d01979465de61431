#include "compiler/emit/EmitPlan.h"

#include "runtime/plan/Place.h"

namespace pipec::emit {

// The two enumerations are one list; the plan's stands in the file format.
static_assert(int(schedule::Argument::Exchange) == int(plan::Bound::Exchange) &&
              int(schedule::Argument::Exact) == int(plan::Bound::Exact) &&
              int(schedule::Argument::LastDevice) == int(plan::Bound::LastDevice) &&
              int(schedule::Argument::Area) == int(plan::Bound::Area) &&
              int(schedule::Argument::MemoryChain) == int(plan::Bound::MemoryChain) &&
              int(schedule::Argument::WarmUp) == int(plan::Bound::WarmUp) &&
              int(schedule::Argument::Work) == int(plan::Bound::Work) &&
              int(schedule::Argument::CriticalPath) == int(plan::Bound::CriticalPath));

/// The least bounds of all.
static schedule::Bounded leastOf(schedule::Bounded bounds, const std::vector<schedule::Problem> &others) {
  for (const schedule::Problem &other : others) {
    const schedule::Bounded theirs = schedule::lowerBounds(other);
    if (theirs.makespan < bounds.makespan) {
      bounds.makespan = theirs.makespan;
      bounds.makespanArgument = theirs.makespanArgument;
    }
    if (theirs.span < bounds.span) {
      bounds.span = theirs.span;
      bounds.spanArgument = theirs.spanArgument;
    }
  }
  return bounds;
}

plan::Certificate certificate(plan::Time makespan, plan::Time span, const schedule::Problem &problem,
                              const std::vector<schedule::Problem> &alternatives) {
  return certificate(makespan, span, leastOf(schedule::lowerBounds(problem), alternatives));
}

plan::Certificate certificate(plan::Time makespan, plan::Time span, const schedule::Bounded &bounds) {
  plan::Certificate made;
  made.makespan = makespan;
  made.span = span;
  made.lowerBound = bounds.makespan;
  made.spanLowerBound = bounds.span;
  made.bound = static_cast<plan::Bound>(bounds.makespanArgument);
  made.spanBound = static_cast<plan::Bound>(bounds.spanArgument);
  return made;
}

void widen(plan::Certificate &certificate, const std::vector<std::vector<schedule::Problem>> &choices) {
  const plan::Certificate own = certificate;
  certificate.lowerBound = certificate.spanLowerBound = 0;
  for (const std::vector<schedule::Problem> &list : choices) {
    const schedule::Bounded least =
        leastOf({own.lowerBound, own.spanLowerBound, static_cast<schedule::Argument>(own.bound),
                 static_cast<schedule::Argument>(own.spanBound)},
                list);
    if (least.makespan >= certificate.lowerBound) {
      certificate.lowerBound = least.makespan;
      certificate.bound = static_cast<plan::Bound>(least.makespanArgument);
    }
    if (least.span >= certificate.spanLowerBound) {
      certificate.spanLowerBound = least.span;
      certificate.spanBound = static_cast<plan::Bound>(least.spanArgument);
    }
  }
}

plan::Variant variant(Lowered &lowered, const schedule::Problem &problem,
                      const std::vector<schedule::Problem> &alternatives, std::string name) {
  plan::Variant made = std::move(lowered.variant);
  made.name = std::move(name);
  made.certificate = certificate(lowered.result.makespan, lowered.span, problem, alternatives);
  return made;
}

plan::Plan plan(std::vector<plan::Variant> variants, int32_t degree, uint64_t specHash, std::vector<uint8_t> provider) {
  plan::Plan made;
  made.specHash = specHash;
  made.provider = std::move(provider);
  made.variants = std::move(variants);
  const plan::Grid grid{degree, made.shards()};
  made.groups = plan::groupsOf(made.variants, degree);
  for (int32_t world = 0; world != made.ranks() * grid.each(); ++world) {
    const plan::Place place = plan::placeOf(world, grid);
    made.processes.push_back({place.rank, place.replica, place.shard});
  }
  return made;
}

} // namespace pipec::emit
