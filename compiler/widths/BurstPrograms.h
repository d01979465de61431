// From stages to the programs of all ranks: each stage, consecutive layers of one width, on the first so many ranks;
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
ProgramSet programsOf(const spec::Spec &spec, const burst::Problem &problem, std::vector<Stage> stages,
                      const Sums &sums, mlir::Location place);

/// What a step among others takes by a walk; limits::kTime + 1: too long.
plan::Time spanOf(const ProgramSet &set);
} // namespace pipec::widths
