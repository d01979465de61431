// The stage of a process from one end of a run to the other: made for a plan, saved and loaded whole or, once the model
// was cut anew, layer by layer, and made again for another cut.
#pragma once

#include "runtime/backend/Backend.h"
#include "runtime/checkpoint/Checkpoint.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace pipec::runtime {

/// Everything but the constructor is for the issuing thread, at rest.
class HeldStage {
public:
  /// The backend outlives it. `folder`: of checkpoints, which are a host's own where `ofHost`.
  HeldStage(Backend &backend, const plan::Place &place, std::string folder, bool ofHost)
      : backend(backend), place(place), folder(std::move(folder)), ofHost(ofHost) {}

  /// Makes the stage, in place of the one that is there.
  Status make(std::shared_ptr<const plan::Plan> plan);
  /// What it holds may be another after make().
  const std::unique_ptr<Stage> &stage() const { return held; }
  void free() { held.reset(); }

  /// From now on states are of layers.
  void saveByLayers() { layers = true; }
  bool savesByLayers() const { return layers; }

  using Saved = std::vector<std::pair<int32_t, StateFile>>; // with its process's or layer's number
  /// Saves the state after `step` steps; of a layer that two copies of a stage hold the first one does. What could not
  /// be saved leaves no file.
  Status save(int64_t step, Saved &saved) const;
  /// Loads what this process needs of a checkpoint. Where ranks have shards all of one do that at once, and are told
  /// before what they had then.
  Status load(const Manifest &checkpoint) const;

  /// Where ranks have shards: from `step` on they have what a variant says. All of a rank at once.
  Status share(std::shared_ptr<const plan::Variant> variant, int64_t step);
  /// What this process has.
  std::vector<OwnedUnits> owned() const;

private:
  /// For each layer of its stages, until one fails; of two copies of a stage of both or of the first alone.
  Status forEachLayer(bool ofAllCopies, const std::function<Status(int32_t)> &act) const;
  Status saveOne(const StateOf &of, Saved &saved) const;
  Portions portionsOf(const Manifest &checkpoint) const;

  Backend &backend;
  const plan::Place place;
  const std::string folder;
  const bool ofHost;
  std::shared_ptr<const plan::Plan> plan;      // outlives `held`
  std::shared_ptr<const plan::Variant> shared; // whose portions it has; null: none were told
  std::unique_ptr<Stage> held;
  bool layers = false;
};

} // namespace pipec::runtime
