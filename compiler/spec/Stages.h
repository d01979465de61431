// The number of stages, which often only the schedule determines, and the costs of each stage, which depend on that
// number.
#pragma once

#include "compiler/spec/Diagnostic.h"
#include "compiler/spec/Spec.h"

#include <vector>

namespace pipec::spec {

/// Gives `spec` this number of stages: sums up its layers, and checks that every list by stage has this length and that
/// the step is not too large. Call this before reading any PerStage value; it may be called again with another number.
/// False after an error; `spec` is then invalid.
bool setStages(Spec &spec, int32_t stages, std::vector<Diagnostic> &diagnostics);

/// The same while a spec is read.
void setStages(Spec &spec, int32_t stages, Errors &errors);

/// The bytes that a stage keeps if recomputed; the spec must have its stages.
int64_t recomputeInputOf(const Spec &spec, int64_t stage);

/// The number of layers of each stage, after setStages with this number of stages; empty: the spec has no layers.
std::vector<int64_t> cutOf(const Spec &spec, int32_t stages);

/// The stages that have layers of a shared weight, ascending. `stages`: the number of stages of the pipeline.
std::vector<int32_t> stagesOf(const Spec &spec, const SharedWeight &weight, int32_t stages);

/// Distributes `layers` layers as evenly as possible over the stages; the stages in the middle get one more if some are
/// left over.
std::vector<int64_t> evenCut(int64_t layers, int32_t stages);

} // namespace pipec::spec
