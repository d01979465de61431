#include "runtime/stage/cuda/CudaSyntheticStage.h"

#include "runtime/plan/Text.h"

#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <utility>

namespace pipec::runtime {

using C = gpu::CudaFunctions;

static gpu::CUdeviceptr addressOf(const void *data) { return reinterpret_cast<gpu::CUdeviceptr>(data); }

CudaSyntheticStage::CudaSyntheticStage(int32_t world, const plan::Plan &plan, CudaDevice &device, Failure &failure)
    : Synthetic(world, plan), device(device), failure(failure), layers(plan, state.place().rank) {
  int64_t most = 1; // instructions of a step
  for (const plan::Variant &variant : plan.variants)
    most = std::max(most, plan::executed(variant.programs[size_t(state.place().rank)]));
  findings.resize(size_t(3 * most));
  number = static_cast<double *>(device.allocateOnHost(sizeof *number));
  words = static_cast<uint64_t *>(device.allocateOnHost(findings.size() * sizeof *words));
  if (number)
    *number = state.own();
  device.watch([this] { look(); });
  placeLayers();
}

/// In memory of the GPU, each stage's end to end.
void CudaSyntheticStage::placeLayers() {
  for (auto &[stage, ofStage] : layers.all()) {
    plan::Bytes bytes = 0;
    for (const LayerMemory &layer : ofStage)
      bytes += layer.planned.gradients;
    std::byte *gradients = device.allocate(bytes), *weights = device.allocate(bytes);
    if (!gradients || !weights)
      return failure.raise(Status::run(fmt::format("{}: not enough memory for {} of gradients and as much of weights",
                                                   plan::nameOf(state.place()), plan::bytesText(bytes))));
    for (LayerMemory &layer : ofStage) {
      if (stage == plan::kSharedWeights && !isSummed(layer))
        continue;
      layer.elements = layer.planned.gradients / sizeOf(layer.type);
      layer.gradients = std::exchange(gradients, gradients + layer.planned.gradients);
      layer.weights = std::exchange(weights, weights + layer.planned.gradients);
    }
  }
}

CudaSyntheticStage::~CudaSyntheticStage() {
  device.watch(nullptr);
  device.freeOnHost(number);
  device.freeOnHost(words);
}

/// The word that the GPU is to write to. Work of three steps is never under way at once, so it is free.
gpu::CUdeviceptr CudaSyntheticStage::expect(const Finding &finding) {
  const size_t at = next++ % findings.size();
  first = std::max(first, next > findings.size() ? next - findings.size() : 0);
  findings[at] = finding;
  words[at] = kNothing;
  return addressOf(&words[at]);
}

void CudaSyntheticStage::issue(QueueId queue, const Label &label, const StageSlots &slots) {
  Kernels &kernels = device.kernels();
  const gpu::CUstream stream = device.begin(queue, label);
  if (failure.raised()) // there may be no memory for what is found
    return;
  if (slots.in.data)
    kernels.check(stream, addressOf(slots.in.data), uint64_t(slots.in.bytes / 8), seedOf(state.inputOf(label)),
                  expect({label, slots.in.bytes, false}));
  if (label.operation->cost > 0)
    kernels.spin(stream, uint64_t(label.operation->cost / 1000));
  if (slots.out.data) // slots end at whole words
    kernels.fill(stream, addressOf(slots.out.data), uint64_t(slots.out.bytes + 7) / 8, seedOf(state.outputOf(label)));
}

void CudaSyntheticStage::gradientNorm(QueueId queue, const Label &, Slot to, const Then &then) {
  device.driver()(&C::cuMemcpyAsync, addressOf(to.data), addressOf(number), sizeof *number, device.on(queue));
  then();
}

void CudaSyntheticStage::setGlobalNorm(QueueId queue, const Label &label, Slot from, const Then &then) {
  if (!failure.raised())
    device.driver()(&C::cuMemcpyAsync, expect({label, 0, true}), addressOf(from.data), sizeof *number,
                    device.on(queue));
  then();
}

/// What was issued two steps before the newest has completed, so nothing more is found in it.
void CudaSyntheticStage::look() {
  for (size_t n = first; n < next; ++n) {
    const size_t at = n % findings.size();
    const Finding &finding = findings[at];
    const uint64_t found = std::atomic_ref<uint64_t>(words[at]).load(std::memory_order_acquire);
    if (found == kNothing)
      continue;
    Status status = finding.total ? state.checkTotal(finding.label, std::bit_cast<double>(found))
                                  : state.checkInput(finding.label, finding.bytes, int64_t(found) * 8);
    if (!status.ok())
      return failure.raise(std::move(status));
  }
  while (first < next &&
         findings[first % findings.size()].label.step + 2 <= findings[(next - 1) % findings.size()].label.step)
    ++first;
}

} // namespace pipec::runtime
