// Decides by simulation where all-reduces of gradients go, and which layers each covers.
#pragma once

#include "compiler/widths/BurstPrograms.h"

namespace pipec::widths {

/// Stages, the places of their all-reduces, and the resulting time per step.
struct Placed {
  std::vector<Stage> stages;
  Sums sums;
  plan::Time span = 0;
};

/// With `sync: end`, consecutive layers of one width are one stage, and all-reduces are issued after all backwards.
/// Otherwise simulations improve this. First, all-reduces go right after their own backwards or all at the end,
/// whichever is faster. Then stages are cut in two, one at a time where a step gains most, so that the upper part's
/// gradients are summed during the lower part's backward. Then each all-reduce moves after any other backward while
/// that is faster. `left`: instructions that may still be simulated; decreases. The first simulations are made in any
/// case.
Placed placedSums(const spec::Spec &spec, const burst::Problem &problem, const burst::Widths &widths,
                  mlir::Location place, int64_t &left);

/// A lower bound of a step with such widths, however they are cut into stages. On rank 0, which takes part in
/// everything: the passes and reshards, then the sum and the update of the first layer (with `sync: end`, of the first
/// stage). Also: the sums one after the other, which begin after the first backward of a layer with gradients to sum.
plan::Time leastOf(const spec::Spec &spec, const burst::Problem &problem, const burst::Widths &widths);

} // namespace pipec::widths
