// The synthetic stage on a GPU: an operation is a kernel that spins for its cost, behind one that checks what has
// arrived and before one that fills what leaves.
#pragma once

#include "runtime/device/cuda/CudaDevice.h"
#include "runtime/stage/LayerTable.h"
#include "runtime/stage/Stage.h"
#include "runtime/stage/synthetic/SyntheticState.h"

namespace pipec::runtime {

class CudaSyntheticStage final : public Synthetic<Stage> {
public:
  /// All outlive the stage. Made and freed at rest, by the thread that issues.
  CudaSyntheticStage(int32_t world, const plan::Plan &plan, CudaDevice &device, Failure &failure);
  ~CudaSyntheticStage() override;

  void issue(QueueId queue, const Label &label, const StageSlots &slots) override;
  void gradientNorm(QueueId queue, const Label &label, Slot number, const Then &then) override;
  void setGlobalNorm(QueueId queue, const Label &label, Slot number, const Then &then) override;
  std::span<const LayerMemory> layersOf(int32_t stage) const override { return layers.of(stage); }

private:
  void placeLayers();

  /// What the GPU has found, in memory of the host that it reaches: of an input the first wrong word, of a sum the
  /// total.
  struct Finding {
    Label label;
    plan::Bytes bytes = 0; // of an input
    bool total = false;
  };
  gpu::CUdeviceptr expect(const Finding &finding);
  void look();

  CudaDevice &device;
  Failure &failure;
  LayerTable layers;                               // their numbers mean nothing
  static constexpr uint64_t kNothing = UINT64_MAX; // has been found
  double *number = nullptr;                        // this rank's, on the host
  uint64_t *words = nullptr;                       // likewise, a ring
  std::vector<Finding> findings;                   // likewise
  size_t first = 0, next = 0;                      // of those that are looked at
};

} // namespace pipec::runtime
