#include "runtime/launch/HeldStage.h"

#include "runtime/plan/Layers.h"

#include <fmt/format.h>

namespace pipec::runtime {

Status HeldStage::make(std::shared_ptr<const plan::Plan> next) {
  held.reset(); // first: there may be no room for two
  plan = std::move(next);
  return backend.makeStage(*plan, held);
}

std::vector<int32_t> HeldStage::ownLayers(bool ofAllCopies) const {
  const plan::Variant &variant = plan->variants.front();
  std::vector<int32_t> own;
  for (const int32_t stage : variant.programs[size_t(rank)].stages) {
    const plan::Layers all = plan::layersOf(variant, stage);
    for (int32_t i = 0; i < all.count && (ofAllCopies || stage < variant.stagesOfCopy()); ++i)
      own.push_back(all.first + i);
  }
  return own;
}

Status HeldStage::saveOne(const StateOf &of, Saved &saved) const {
  const std::string path = statePath(folder, of);
  StateFile file;
  Status status =
      of.whose == StateOf::Whose::Rank ? held->save(path, of.step) : held->saveLayer(of.number, path, of.step);
  if (status.ok())
    status = finishState(folder, of, file);
  if (status.ok())
    saved.emplace_back(of.number, std::move(file));
  else
    dropState(folder, of);
  return status;
}

Status HeldStage::save(int64_t step, Saved &saved) const {
  if (!layers)
    return saveOne({step, StateOf::Whose::Rank, rank}, saved);
  for (const int32_t layer : ownLayers(false))
    if (Status status = saveOne({step, StateOf::Whose::Layer, layer}, saved); !status.ok())
      return status;
  return {};
}

Status HeldStage::load(const Manifest &checkpoint) const {
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
    return loadOne(rank);
  for (const int32_t layer : ownLayers(true))
    if (Status status = loadOne(layer); !status.ok())
      return status;
  return {};
}

} // namespace pipec::runtime
