// How many stages there are is often the schedule's to say; what each of them costs follows from it.
#pragma once

#include "compiler/spec/Diagnostic.h"
#include "compiler/spec/Spec.h"

#include <vector>

namespace pipec::spec {

/// Makes `spec` one of that many stages: sums up its layers, and holds every list by stage and the step's size against
/// the number. Due before any PerStage value is read, once the schedule has said its number; may be called again with
/// another. False after an error; `spec` is then of no use.
bool setStages(Spec &spec, int32_t stages, std::vector<Diagnostic> &diagnostics);

/// The same while a spec is read.
void setStages(Spec &spec, int32_t stages, Errors &errors);

} // namespace pipec::spec
