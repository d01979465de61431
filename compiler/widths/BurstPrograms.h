// From widths to the programs of all ranks: each stage, consecutive layers of one width, on the first so many ranks;
// where two stages differ in width, samples change ranks between them; one all-reduce a stage of its gradients.
#pragma once

#include "compiler/program/ProgramSet.h"
#include "compiler/widths/SpecBurst.h"

#include "mlir/IR/MLIRContext.h"

namespace pipec::widths {

/// Of each stage, behind how many other backwards its all-reduce is issued: 0, right behind its own; the number of
/// stages below it, behind all.
using Sums = std::vector<size_t>;
Sums sumsAtEnd(size_t stages);

/// The programs of a step: forwards up, backwards down, each result that changes ranks right behind its pass.
/// Collectives of a rank share a queue. `places`: of the spec, for messages.
ProgramSet programsOf(const spec::Spec &spec, const burst::Problem &problem, const burst::Widths &widths,
                      const Sums &sums, mlir::Location place);

/// What a step among others takes by a walk; limits::kTime + 1: too long.
plan::Time spanOf(const ProgramSet &set);
/// No step of these programs takes less: on rank 0, which has part in all, the passes and reshards, then the sum and
/// the update of stage 0.
plan::Time leastOf(const ProgramSet &set);

/// Widths, behind which backwards their all-reduces are issued, and what a step among others then takes.
struct Placed {
  burst::Widths widths;
  Sums sums;
  plan::Time span = 0;
};

/// With `sync: end` all-reduces are issued behind all backwards. Else walks find where: all right behind their own or
/// all at the end, whichever is shorter; then each, one by one, behind any other while that is. `left`: instructions
/// that may still be walked, from which those walked here are taken; the first walks are made in any case.
Placed placedSums(const spec::Spec &spec, const burst::Problem &problem, burst::Widths widths, mlir::Location place,
                  int64_t &left);

} // namespace pipec::widths
