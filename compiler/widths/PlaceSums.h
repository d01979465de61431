// Where all-reduces of gradients stand, and of which layers each is: found by walks.
#pragma once

#include "compiler/widths/BurstPrograms.h"

namespace pipec::widths {

/// Stages, behind which backwards their all-reduces are issued, and what a step among others then takes.
struct Placed {
  std::vector<Stage> stages;
  Sums sums;
  plan::Time span = 0;
};

/// With `sync: end` all layers of one width in a row are one stage, and all-reduces are issued behind all backwards.
/// Else walks find more: all-reduces right behind their own backwards or all at the end, whichever is shorter; stages
/// cut in two, one by one, where that shortens a step most, so that the upper part's gradients are summed beside the
/// lower part's backward; then each all-reduce behind any other backward while that is shorter. `left`: instructions
/// that may still be walked, from which those walked here are taken; the first walks are made in any case.
Placed placedSums(const spec::Spec &spec, const burst::Problem &problem, const burst::Widths &widths,
                  mlir::Location place, int64_t &left);

/// No step of such widths takes less, however they are cut into stages: on rank 0, which has part in all, the passes
/// and reshards, then the sum and the update of the first layer (with `sync: end` of the first stage); nor the sums one
/// after the other, which begin once the first backward of a layer with gradients to sum has ended.
plan::Time leastOf(const spec::Spec &spec, const burst::Problem &problem, const burst::Widths &widths);

} // namespace pipec::widths
