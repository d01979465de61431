// Often it is the schedule that says how many stages there are; only then it is known what each of them costs.
#pragma once

#include "compiler/spec/Diagnostic.h"
#include "compiler/spec/Spec.h"

#include <vector>

namespace pipec::spec {

/// Makes `spec` one of that many stages: sums up its layers, and checks that every list by stage has that length and
/// that the step is not too large. Call it before any PerStage value is read; it may be called again with another
/// number. False after an error; `spec` is then of no use.
bool setStages(Spec &spec, int32_t stages, std::vector<Diagnostic> &diagnostics);

/// The same while a spec is read.
void setStages(Spec &spec, int32_t stages, Errors &errors);

/// The bytes that a stage keeps where it is recomputed; the spec must have its stages.
int64_t recomputeInputOf(const Spec &spec, int64_t stage);

/// How many of its layers go to each of so many stages, which setStages has made; empty: it has no layers.
std::vector<int64_t> cutOf(const Spec &spec, int32_t stages);

/// The stages that have layers of a shared weight, ascending. `stages`: how many stages the pipeline has.
std::vector<int32_t> stagesOf(const Spec &spec, const SharedWeight &weight, int32_t stages);

/// So many layers, as equally many a stage as can be: the stages in the middle have one more where some are left over.
std::vector<int64_t> evenCut(int64_t layers, int32_t stages);

} // namespace pipec::spec
