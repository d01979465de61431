// Plans for what a run has measured: the schedules that a spec allows, each made for that (spec::Measured). What keeps
// the stages of the plan that runs may run in its place.
#pragma once

#include "compiler/compare/Comparison.h"
#include "compiler/spec/Spec.h"

namespace pipec {

/// A plan of one variant.
struct Replanned {
  std::string name; // as its variant's
  plan::Plan plan;
  std::vector<uint8_t> bytes;
};

/// Compiles the spec's variants and, of what else it allows, slack per link within its memory, deferred W and `auto`.
/// What does not compile or does not fit is left out. False after an error, which has been said: the spec is wrong, or
/// of other stages, microbatches or costs than `running`, or nothing of it compiles.
bool replan(const Source &source, const plan::Plan &running, const spec::Measured &measured,
            std::vector<Replanned> &made, Failure &failure);

/// The spec's variants with the layers cut for what was measured, and what else it allows with that cut. None where the
/// spec has no layers, or where no cut compiles; then nothing is said.
std::vector<Replanned> recut(const Source &source, const plan::Plan &running, const spec::Measured &measured);

/// Whether the spec's plans may run in place of this one. False after saying why not.
bool checkReplan(const Source &source, const plan::Plan &running, Failure &failure);

} // namespace pipec
