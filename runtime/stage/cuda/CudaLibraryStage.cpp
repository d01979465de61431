#include "runtime/stage/cuda/CudaLibraryStage.h"

#include "runtime/plan/Disassemble.h"

#include <fmt/format.h>

namespace pipec::runtime {

using C = gpu::CudaFunctions;

Status CudaLibraryStage::make(const Library &library, const plan::Plan &plan, int32_t world, CudaDevice &device,
                              Failure &failure, std::unique_ptr<Stage> &stage) {
  auto object = std::make_unique<LibraryObject>(library, plan::placeOf(world, plan));
  Status status = object->create(plan, device.driver().device(), device.driver().context());
  if (status.ok())
    stage.reset(new CudaLibraryStage(std::move(object), device, failure));
  return status.ok() ? failure.status() : status;
}

CudaLibraryStage::CudaLibraryStage(std::unique_ptr<LibraryObject> object, CudaDevice &device, Failure &failure)
    : OfLibrary(std::move(object)), device(device), failure(failure),
      zero(static_cast<double *>(device.allocateOnHost(sizeof(double)))) {
  if (zero)
    *zero = 0;
}

CudaLibraryStage::~CudaLibraryStage() { device.freeOnHost(zero); }

void CudaLibraryStage::check(const Label &label, const std::string &error) const {
  if (!error.empty())
    failure.raise(
        Status::run(fmt::format("{}: {}", plan::describe(object->place(), *label.operation, label.microbatch), error)));
}

/// The two of a pair run one after the other: behind its header there is nothing to do yet.
void CudaLibraryStage::issue(QueueId queue, const Label &label, const StageSlots &slots) {
  const gpu::CUstream stream = device.begin(queue, label);
  if (!plan::isHeader(label.operation->kind) && !failure.raised())
    check(label, object->run(label, slots.in, slots.out, stream));
}

void CudaLibraryStage::gradientNorm(QueueId queue, const Label &label, Slot number, const Then &then) {
  // Where the library has no such function it is 0.
  device.driver()(&C::cuMemcpyAsync, reinterpret_cast<gpu::CUdeviceptr>(number.data),
                  reinterpret_cast<gpu::CUdeviceptr>(zero), sizeof *zero, device.on(queue));
  check(label, object->gradientNorm(label, number, device.on(queue)));
  then();
}

void CudaLibraryStage::setGlobalNorm(QueueId queue, const Label &label, Slot number, const Then &then) {
  check(label, object->setGlobalNorm(label, number, device.on(queue)));
  then();
}

} // namespace pipec::runtime
