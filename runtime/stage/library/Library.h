// A stage library in this process: the functions of pipec_stage.h, found by name.
#pragma once

#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"
#include "runtime/stage/pipec_stage.h"

#include <array>
#include <functional>
#include <string>

namespace pipec::runtime {

/// It stays loaded until the process ends: threads that it started may be in it.
struct Library {
  using Call = std::function<decltype(pipec_stage_forward)>;
  std::function<decltype(pipec_stage_create)> create;
  std::function<decltype(pipec_stage_destroy)> destroy;
  std::array<Call, plan::kKinds> calls; // by kind; empty: it has none, and no plan that it runs needs it
  std::function<decltype(pipec_stage_forward_backward)> forwardBackward; // empty: the two are called by themselves
  std::function<decltype(pipec_stage_gradient_norm)> gradientNorm;       // these two likewise, or not asked for
  std::function<decltype(pipec_stage_set_global_norm)> setGlobalNorm;
  Call evaluate; // empty: it cannot evaluate
  std::function<decltype(pipec_stage_save)> save;
  std::function<decltype(pipec_stage_load)> load;
  std::function<decltype(pipec_stage_save_layer)> saveLayer; // both or neither
  std::function<decltype(pipec_stage_load_layer)> loadLayer;
  std::function<decltype(pipec_stage_layer)> layer;       // empty: it can run no replicas and no parts of passes
  std::function<decltype(pipec_stage_portions)> portions; // empty: it can run no shards
  std::function<decltype(pipec_stage_memory)> memory;
};

/// What a library is to be able to do beside what the plan uses.
struct LibraryUse {
  bool onGpu = false;    // compute on a GPU's streams, which version 1 of the header does not know
  bool byLayers = false; // save and load layers
  bool evaluates = false;
};

/// Opens the library at `path` (never searched for elsewhere) and finds what it must have and what `plan` uses.
/// Code::Input where it cannot be loaded, is of another version, or lacks a function; Code::Check where that is only
/// what replicas, shards and passes in parts need. One of version 1 is made to be called like one of today's.
Status openLibrary(const std::string &path, const plan::Plan &plan, const LibraryUse &use, Library &library);

/// The same in a process of its own, whose end, however it comes, is told as a Status: nothing of the library stays in
/// this one. Call it while the process has one thread.
Status tryLibrary(const std::string &path, const plan::Plan &plan, const LibraryUse &use);

} // namespace pipec::runtime
