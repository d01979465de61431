// The stage of a rank with a host program: the program does the instructions, and the rest of the runtime sees this
// stage.
#pragma once

#include "runtime/device/cuda/CudaDevice.h"
#include "runtime/stage/HostStage.h"
#include "runtime/stage/LayerTable.h"
#include "runtime/stage/hosted/Handover.h"

#include <utility>

namespace pipec::runtime {

/// The part for any kind of device: Base is HostStage or Stage.
template <typename Base> class OfHost : public Base {
public:
  Status save(const std::string &path, int64_t steps) final { return askState(Duty::Kind::Save, "save", path, steps); }
  Status load(const std::string &path, int64_t steps) final { return askState(Duty::Kind::Load, "load", path, steps); }
  // The host's modules stay where they are.
  bool savesLayers() const final { return false; }
  Status saveLayer(int32_t, const std::string &, int64_t) final {
    return Status::run("layers are not saved one by one");
  }
  Status loadLayer(int32_t, const std::string &, int64_t) final {
    return Status::run("layers are not loaded one by one");
  }
  StageMemory memory() const final { return {}; }
  std::span<const LayerMemory> layersOf(int32_t stage) const final { return layers.of(stage); }

protected:
  template <typename... Given>
  OfHost(Handover &handover, LayerTable layers, const plan::Place &place, Given &&...given)
      : Base(std::forward<Given>(given)...), handover(handover), layers(std::move(layers)), place(place) {}

  Status askState(Duty::Kind kind, const char *what, const std::string &path, int64_t step) {
    const std::string error = handover.ask({.kind = kind, .path = path, .step = step});
    return error.empty() ? Status{} : Status::run(plan::nameOf(place) + ": cannot " + std::string(what) + ": " + error);
  }

  Handover &handover;
  const LayerTable layers;
  const plan::Place place;
};

class HostedStage final : public OfHost<HostStage> {
public:
  /// All arguments must outlive the stage. The device is not started: the host runs its queues.
  HostedStage(Handover &handover, LayerTable layers, const plan::Place &place, HostDevice &device, const Clock &clock);
  void gradientNorm(QueueId queue, const Label &label, Slot number, const Then &then) override;
  void setGlobalNorm(QueueId queue, const Label &label, Slot number, const Then &then) override;

private:
  Span run(const HostWork &, plan::Time ready) override { return {ready, ready}; } // never called
};

class CudaHostedStage final : public OfHost<Stage> {
public:
  CudaHostedStage(Handover &handover, LayerTable layers, const plan::Place &place, CudaDevice &device,
                  Failure &failure);
  void issue(QueueId queue, const Label &label, const StageSlots &slots) override;
  void gradientNorm(QueueId queue, const Label &label, Slot number, const Then &then) override;
  void setGlobalNorm(QueueId queue, const Label &label, Slot number, const Then &then) override;

private:
  void ask(Duty::Kind kind, const Label &label, const StageSlots &slots, void *stream);

  CudaDevice &device;
  Failure &failure;
};

} // namespace pipec::runtime
