// Converts a spec with `schedule: burst` to the planner's problem, and widths to stages.
#pragma once

#include "compiler/burst/Costs.h"
#include "compiler/spec/Spec.h"

#include <string>

namespace pipec::widths {

/// All layers of a spec, one by one.
std::vector<const spec::Layer *> layersOf(const spec::Spec &spec);

/// The planner's problem. For each width, links are as slow as the slowest between the first `width` ranks.
burst::Problem problemOf(const spec::Spec &spec);

/// Consecutive layers of one width.
struct Stage {
  size_t first = 0, end = 0; // layers
  int32_t width = 1;
};
std::vector<Stage> stagesOf(const burst::Widths &widths);

} // namespace pipec::widths
