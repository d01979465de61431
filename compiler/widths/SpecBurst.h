// From a spec with `schedule: burst` to widths: the planner's problem, and the plan that the spec asks for.
#pragma once

#include "compiler/burst/Costs.h"
#include "compiler/spec/Spec.h"

#include <string>

namespace pipec::widths {

/// All layers of a spec, one by one.
std::vector<const spec::Layer *> layersOf(const spec::Spec &spec);

/// The planner's problem. Links are as slow as the slowest between the first so many ranks.
burst::Problem problemOf(const spec::Spec &spec);

/// What a step may take at the stated speed of the foreground, of `exact`: that of data parallelism over it.
burst::Time limitOf(const spec::Spec &spec, const burst::Problem &problem);
/// The plan that the spec asks for, by the planners' sums: all-reduces behind all backwards. There is always one, as
/// data parallelism keeps the limit.
burst::Plan planOf(const spec::Spec &spec, const burst::Problem &problem);

/// Consecutive layers of one width.
struct Stage {
  size_t first = 0, end = 0; // layers
  int32_t width = 1;
};
std::vector<Stage> stagesOf(const burst::Widths &widths);

} // namespace pipec::widths
