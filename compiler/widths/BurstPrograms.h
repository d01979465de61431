// Makes the programs of all ranks from stages. A stage is consecutive layers of one width, on the first `width` ranks.
// Between stages of different widths, samples change ranks. Each stage has one all-reduce of its gradients.
#pragma once

#include "compiler/program/ProgramSet.h"
#include "compiler/widths/SpecBurst.h"

#include "mlir/IR/MLIRContext.h"

namespace pipec::widths {

/// By stage: after how many other backwards its all-reduce is issued. 0: right after its own backward; the number of
/// lower stages: after all backwards.
using Sums = std::vector<size_t>;
Sums sumsAtEnd(size_t stages);

/// The programs of a step: forwards upwards, backwards downwards, each result that changes ranks right after its pass.
/// Collectives of a rank share a queue. `place`: the place in the spec, for messages.
ProgramSet programsOf(const spec::Spec &spec, const burst::Problem &problem, std::vector<Stage> stages,
                      const Sums &sums, mlir::Location place);

/// The time per step when steps follow each other, by simulation; limits::kTime + 1: too long.
plan::Time spanOf(const ProgramSet &set);
} // namespace pipec::widths
