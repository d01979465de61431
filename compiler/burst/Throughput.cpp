#include "compiler/burst/Throughput.h"

#include <algorithm>

namespace pipec::burst {

Throughput throughputOf(const Problem &problem, const Plan &plan, const Background &background) {
  const double parallel = double(dataParallel(problem).cost.time), step = double(plan.cost.time);
  if (parallel == 0 || step == 0)
    return {};
  const int32_t used = plan.widths.empty() ? 0 : *std::max_element(plan.widths.begin(), plan.widths.end());
  const double alone = background.time == 0 ? 0 : double(background.samples) / double(background.time);
  const double idle = used * step - double(plan.cost.device); // of used ranks, a step
  const double others = alone * (background.efficient * idle + (problem.ranks - used) * step);
  const double samples = double(problem.batch);
  return {.cluster = (samples + others) / step * parallel / samples,
          .foreground = parallel / step,
          .bound = problem.ranks * alone * parallel / samples};
}

} // namespace pipec::burst
