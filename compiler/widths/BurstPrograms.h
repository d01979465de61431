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

/// Behind which backwards all-reduces are issued, found by walks: all right behind their own or all at the end,
/// whichever is shorter; then each, one by one, behind any other while that is. With `sync: end` behind all. `left`:
/// instructions that may still be walked, from which those walked here are taken; the first two walks are made in any
/// case.
Sums sumsOf(const spec::Spec &spec, const burst::Problem &problem, const burst::Widths &widths, mlir::Location place,
            int64_t &left);

} // namespace pipec::widths
