// A stage library in this process: the functions of pipec_stage.h, found by name.
#pragma once

#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"
#include "runtime/stage/pipec_stage.h"

#include <array>
#include <string>

namespace pipec::runtime {

/// It stays loaded until the process ends: threads that it started may be in it.
struct Library {
  using Call = decltype(pipec_stage_forward);
  decltype(pipec_stage_version) *version = nullptr;
  decltype(pipec_stage_create) *create = nullptr;
  decltype(pipec_stage_destroy) *destroy = nullptr;
  std::array<Call *, plan::kKinds> calls{}; // by kind; nullptr: it has none, and no plan that it runs needs it
  decltype(pipec_stage_forward_backward) *forwardBackward = nullptr; // nullptr: the two are called by themselves
  decltype(pipec_stage_gradient_norm) *gradientNorm = nullptr;       // these two likewise, or not asked for
  decltype(pipec_stage_set_global_norm) *setGlobalNorm = nullptr;
  decltype(pipec_stage_save) *save = nullptr;
  decltype(pipec_stage_load) *load = nullptr;
  decltype(pipec_stage_save_layer) *saveLayer = nullptr; // both or neither
  decltype(pipec_stage_load_layer) *loadLayer = nullptr;
  decltype(pipec_stage_memory) *memory = nullptr;
};

/// Opens the library at `path` (never searched for elsewhere) and finds what it must have and what `plan` uses.
/// Code::Input where it cannot be loaded, is of another version, or lacks a function.
Status openLibrary(const std::string &path, const plan::Plan &plan, Library &library);

/// The same in a process of its own, whose end, however it comes, is told as a Status: nothing of the library stays in
/// this one. With `byLayers` it must be able to save and load layers. Call it while the process has one thread.
Status tryLibrary(const std::string &path, const plan::Plan &plan, bool byLayers = false);

} // namespace pipec::runtime
