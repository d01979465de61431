// A stage in a user's library (pipec_stage.h) on a GPU: each instruction is one call, which enqueues on the queue's
// stream and returns.
#pragma once

#include "runtime/device/cuda/CudaDevice.h"
#include "runtime/stage/library/LibraryObject.h"

namespace pipec::runtime {

class CudaLibraryStage final : public OfLibrary<Stage> {
public:
  /// Creates the library's object for a process. The other arguments must outlive the stage. Made and freed at rest, on
  /// the issuing thread.
  static Status make(const Library &library, const plan::Plan &plan, int32_t world, CudaDevice &device,
                     Failure &failure, std::unique_ptr<Stage> &stage);
  ~CudaLibraryStage() override;

  void issue(QueueId queue, const Label &label, const StageSlots &slots) override;
  void gradientNorm(QueueId queue, const Label &label, Slot number, const Then &then) override;
  void setGlobalNorm(QueueId queue, const Label &label, Slot number, const Then &then) override;

private:
  CudaLibraryStage(std::unique_ptr<LibraryObject> object, CudaDevice &device, Failure &failure);
  void check(const Label &label, const std::string &error) const;

  CudaDevice &device;
  Failure &failure;
  double *zero; // in host memory that the GPU can read
};

} // namespace pipec::runtime
