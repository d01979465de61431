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

static void set(const schedule::LeastTimes &least, plan::Certificate &certificate) {
  certificate.lowerBound = least.makespan;
  certificate.spanLowerBound = least.span;
  certificate.bound = static_cast<plan::Bound>(least.makespanArgument);
  certificate.spanBound = static_cast<plan::Bound>(least.spanArgument);
}

plan::Certificate certificate(plan::Time makespan, plan::Time span, const schedule::LeastTimes &least) {
  plan::Certificate made;
  made.makespan = makespan;
  made.span = span;
  set(least, made);
  return made;
}

void widen(plan::Certificate &certificate, const schedule::LeastWays &choices) {
  const schedule::LeastTimes own = {certificate.lowerBound, certificate.spanLowerBound,
                                    static_cast<schedule::Argument>(certificate.bound),
                                    static_cast<schedule::Argument>(certificate.spanBound)};
  schedule::LeastTimes best;
  for (const schedule::LeastCases &cases : choices) // of none, nothing is proven
    best = schedule::bestOf(best, cases.empty() ? own : schedule::leastOf(own, schedule::leastTimes(cases)));
  set(best, certificate);
}

plan::Variant variant(Lowered &lowered, const schedule::LeastWays &least, std::string name) {
  plan::Variant made = std::move(lowered.variant);
  made.name = std::move(name);
  made.certificate = certificate(lowered.result.makespan, lowered.span, schedule::leastTimes(least));
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
