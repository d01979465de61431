// A stage library in this process: the functions of pipec_stage.h, found by name.
#pragma once

#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"
#include "runtime/stage/pipec_stage.h"

#include <array>
#include <functional>
#include <string>

namespace pipec::runtime {

/// The library stays loaded until the process ends, as threads that it started may still run its code.
struct Library {
  using Call = std::function<decltype(pipec_stage_forward)>;
  std::function<decltype(pipec_stage_create)> create;
  std::function<decltype(pipec_stage_destroy)> destroy;
  std::array<Call, plan::kKinds> calls; // by kind; empty: the library lacks it, and the plan does not need it
  std::function<decltype(pipec_stage_forward_backward)>
      forwardBackward;                                             // empty: both passes are called one after the other
  std::function<decltype(pipec_stage_gradient_norm)> gradientNorm; // these two may be empty
  std::function<decltype(pipec_stage_set_global_norm)> setGlobalNorm;
  Call evaluate; // empty: it cannot evaluate
  std::function<decltype(pipec_stage_save)> save;
  std::function<decltype(pipec_stage_load)> load;
  std::function<decltype(pipec_stage_save_layer)> saveLayer; // both or neither
  std::function<decltype(pipec_stage_load_layer)> loadLayer;
  std::function<decltype(pipec_stage_layer)> layer;       // empty: no replicas and no passes in parts
  std::function<decltype(pipec_stage_portions)> portions; // empty: no shards
  std::function<decltype(pipec_stage_memory)> memory;
};

/// What a library must be able to do besides what the plan uses.
struct LibraryUse {
  bool onGpu = false;    // compute on a GPU's streams, which version 1 of the header does not know
  bool byLayers = false; // save and load layers
  bool evaluates = false;
};

/// Opens the library at exactly `path` and finds the functions that it must have and those that `plan` uses.
/// Code::Input if it cannot be loaded, has another version, or lacks a function; Code::Check if only replicas, shards
/// or passes in parts need the missing function. A library of version 1 is adapted to today's calls.
Status openLibrary(const std::string &path, const plan::Plan &plan, const LibraryUse &use, Library &library);

/// Tries this in a child process and returns as a Status how the child ended, even by a crash, so that nothing of the
/// library stays in this process. Call it while the process has one thread.
Status tryLibrary(const std::string &path, const plan::Plan &plan, const LibraryUse &use);

} // namespace pipec::runtime
