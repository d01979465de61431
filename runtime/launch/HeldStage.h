// The stage of a process from one end of a run to the other: made for a plan, saved and loaded whole or, once the model
// was cut anew, layer by layer, and made again for another cut.
#pragma once

#include "runtime/backend/Backend.h"
#include "runtime/launch/Checkpoint.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace pipec::runtime {

/// Everything but the constructor is for the issuing thread, at rest.
class HeldStage {
public:
  /// The backend outlives it. `folder`: of checkpoints.
  HeldStage(Backend &backend, int32_t rank, std::string folder)
      : backend(backend), rank(rank), folder(std::move(folder)) {}

  /// Makes the stage, in place of the one that is there.
  Status make(std::shared_ptr<const plan::Plan> plan);
  /// What it holds may be another after make().
  const std::unique_ptr<Stage> &stage() const { return held; }
  void free() { held.reset(); }

  /// From now on states are of layers.
  void saveByLayers() { layers = true; }
  bool savesByLayers() const { return layers; }

  using Saved = std::vector<std::pair<int32_t, StateFile>>; // with its rank's or layer's number
  /// Saves the state after `step` steps; of a layer that two copies of a stage hold the first one does. What could not
  /// be saved leaves no file.
  Status save(int64_t step, Saved &saved) const;
  /// Loads what this process needs of a checkpoint.
  Status load(const Manifest &checkpoint) const;

private:
  std::vector<int32_t> ownLayers(bool ofAllCopies) const;
  Status saveOne(const StateOf &of, Saved &saved) const;

  Backend &backend;
  const int32_t rank;
  const std::string folder;
  std::shared_ptr<const plan::Plan> plan; // outlives `held`
  std::unique_ptr<Stage> held;
  bool layers = false;
};

} // namespace pipec::runtime
