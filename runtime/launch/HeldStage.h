// HeldStage owns the stage of a process for a whole run. It makes the stage for a plan, and again when the layers are
// cut anew. It saves and loads the stage as a whole, or layer by layer once the layers have been cut anew.
#pragma once

#include "runtime/backend/Backend.h"
#include "runtime/checkpoint/Checkpoint.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace pipec::runtime {

/// All functions but the constructor are for the issuing thread, while no instruction runs.
class HeldStage {
public:
  /// The backend must outlive this object. `folder`: the folder of checkpoints. `ofHost`: the host writes and reads its
  /// own checkpoints.
  HeldStage(Backend &backend, const plan::Place &place, std::string folder, bool ofHost)
      : backend(backend), place(place), folder(std::move(folder)), ofHost(ofHost) {}

  /// Frees the present stage and makes the stage of `plan`.
  Status make(std::shared_ptr<const plan::Plan> plan);
  /// The present stage. make() replaces it.
  const std::unique_ptr<Stage> &stage() const { return held; }
  void free() { held.reset(); }

  /// From now on save() writes a file per layer.
  void saveByLayers() { layers = true; }
  bool savesByLayers() const { return layers; }

  using Saved = std::vector<std::pair<int32_t, StateFile>>; // number of the process or layer, and its file
  /// Saves the state after `step` steps. A layer that two copies of a stage hold is saved by the first copy. A failed
  /// save leaves no file.
  Status save(int64_t step, Saved &saved) const;
  /// Loads this process's part of a checkpoint. With shards, all shards of a rank do so together, and the stage is
  /// first given the portions that the shards had at the checkpoint.
  Status load(const Manifest &checkpoint) const;

  /// With shards: from `step` on the stage has the portions of a variant. All shards of a rank call this together.
  Status share(std::shared_ptr<const plan::Variant> variant, int64_t step);
  /// The units that this process owns; empty before share().
  std::vector<OwnedUnits> owned() const;

private:
  /// Calls `act` for each layer of this rank's stages until a call fails. `ofAllCopies`: also for the second copies of
  /// stages.
  Status forEachLayer(bool ofAllCopies, const std::function<Status(int32_t)> &act) const;
  Status saveOne(const StateOf &of, Saved &saved) const;
  Portions portionsOf(const Manifest &checkpoint) const;

  Backend &backend;
  const plan::Place place;
  const std::string folder;
  const bool ofHost;
  std::shared_ptr<const plan::Plan> plan;      // outlives `held`
  std::shared_ptr<const plan::Variant> shared; // the variant of the present portions; null: share() was not called
  std::unique_ptr<Stage> held;
  bool layers = false;
};

} // namespace pipec::runtime
