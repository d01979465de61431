// The synthetic stage on a GPU: an operation is a kernel that spins for its cost, after one that checks what has
// arrived and before one that fills what is sent.
#pragma once

#include "runtime/device/cuda/CudaDevice.h"
#include "runtime/stage/LayerTable.h"
#include "runtime/stage/Stage.h"
#include "runtime/stage/synthetic/SyntheticState.h"

namespace pipec::runtime {

class CudaSyntheticStage final : public Synthetic<Stage> {
public:
  /// All arguments must outlive the stage. Made and freed at rest, on the issuing thread.
  CudaSyntheticStage(int32_t world, const plan::Plan &plan, CudaDevice &device, Failure &failure);
  ~CudaSyntheticStage() override;

  void issue(QueueId queue, const Label &label, const StageSlots &slots) override;
  void gradientNorm(QueueId queue, const Label &label, Slot number, const Then &then) override;
  void setGlobalNorm(QueueId queue, const Label &label, Slot number, const Then &then) override;
  std::span<const LayerMemory> layersOf(int32_t stage) const override { return layers.of(stage); }

private:
  void placeLayers();

  /// What the GPU has found, in host memory that it can write: the first wrong word of an input, or the total of a sum.
  struct Finding {
    Label label;
    plan::Bytes bytes = 0; // of an input
    bool total = false;
  };
  gpu::CUdeviceptr expect(const Finding &finding);
  void look();

  CudaDevice &device;
  Failure &failure;
  LayerTable layers;                               // their values are not used
  static constexpr uint64_t kNothing = UINT64_MAX; // value of a word until something is found
  double *number = nullptr;                        // this rank's number, in host memory
  uint64_t *words = nullptr;                       // in host memory, a ring
  std::vector<Finding> findings;                   // a ring
  size_t first = 0, next = 0;                      // range of findings that are still to be checked
};

} // namespace pipec::runtime
