#include "runtime/launch/HeldStage.h"

#include "runtime/checkpoint/StepFolders.h"
#include "runtime/plan/Layers.h"

#include <fmt/format.h>

namespace pipec::runtime {

Status HeldStage::make(std::shared_ptr<const plan::Plan> next) {
  held.reset(); // freed first, as memory may not hold two stages
  plan = std::move(next);
  return backend.makeStage(*plan, held);
}

Status HeldStage::forEachLayer(bool ofAllCopies, const std::function<Status(int32_t)> &act) const {
  const plan::Variant &variant = plan->variants.front();
  for (const int32_t stage : variant.programs[size_t(place.rank)].stages) {
    const plan::Layers all = plan::layersOf(variant, stage);
    for (int32_t i = 0; i < all.count && (ofAllCopies || stage < variant.stagesOfCopy()); ++i)
      if (Status status = act(all.first + i); !status.ok())
        return status;
  }
  return {};
}

Status HeldStage::saveOne(const StateOf &of, Saved &saved) const {
  std::string path;
  StateFile file;
  Status status = beginState(folder, of, path);
  if (status.ok())
    status =
        of.whose == StateOf::Whose::Process ? held->save(path, of.step) : held->saveLayer(of.number, path, of.step);
  if (status.ok())
    status = finishState(folder, of, file);
  if (status.ok())
    saved.emplace_back(of.number, std::move(file));
  else
    dropState(folder, of);
  return status;
}

Status HeldStage::save(int64_t step, Saved &saved) const {
  if (ofHost)
    return held->save(stepFolder(folder, step), step);
  if (!layers)
    return saveOne({step, StateOf::Whose::Process, place.world(), place.grid()}, saved);
  return forEachLayer(false, [&](int32_t layer) { return saveOne({step, StateOf::Whose::Layer, layer}, saved); });
}

/// The portions of all shards of the rank at the checkpoint. The manifest has only the units that each shard owned; the
/// units that it worked on and kept are taken to be the same.
Portions HeldStage::portionsOf(const Manifest &checkpoint) const {
  Portions portions{{}, plan->variants.front().balance};
  const int32_t first = place.world() - place.shard;
  for (int32_t shard = 0; shard < place.shards; ++shard)
    for (const OwnedUnits &each : checkpoint.owned.at(size_t(first + shard))) {
      plan::Portion &portion = portions.all.emplace_back();
      portion.stage = each.stage;
      portion.shard = shard;
      portion.firstLayer = each.first_layer;
      portion.layers = each.layers;
      portion.split = each.split;
      portion.units = each.units;
      for (const auto &[from, count] : each.owned)
        portion.owned.push_back({from, count});
      portion.worked = portion.owned;
      portion.kept = plan::unitsIn(portion.worked);
    }
  return portions;
}

Status HeldStage::share(std::shared_ptr<const plan::Variant> variant, int64_t step) {
  shared = std::move(variant);
  return held->share(runtime::portionsOf(*shared, place.rank), step);
}

std::vector<OwnedUnits> HeldStage::owned() const {
  std::vector<OwnedUnits> all;
  if (shared)
    for (const plan::Portion &each : runtime::portionsOf(*shared, place.rank).all)
      if (each.shard == place.shard) {
        OwnedUnits &own =
            all.emplace_back(OwnedUnits{each.stage, each.firstLayer, each.layers, each.split, each.units, {}});
        for (const plan::Range &range : each.owned)
          own.owned.emplace_back(range.first, range.count);
      }
  return all;
}

Status HeldStage::load(const Manifest &checkpoint) const {
  if (ofHost)
    return held->load(stepFolder(folder, checkpoint.step), checkpoint.step);
  if (place.shards > 1)
    if (Status status = held->share(portionsOf(checkpoint), checkpoint.step); !status.ok())
      return status;
  const auto loadOne = [&](int32_t number) {
    const StateFile &file = checkpoint.files.at(size_t(number));
    const std::string path = folder + "/" + file.name;
    Status status = checkState(folder, file);
    if (status.ok())
      status =
          checkpoint.ofLayers() ? held->loadLayer(number, path, checkpoint.step) : held->load(path, checkpoint.step);
    return status;
  };
  if (!checkpoint.ofLayers())
    return loadOne(place.world());
  return forEachLayer(true, loadOne);
}

} // namespace pipec::runtime
