// From what the runtime asks of a stage to duties of the host.
#include "runtime/stage/hosted/HostedStage.h"

#include "runtime/plan/Disassemble.h"

#include <cstring>
#include <fmt/format.h>

namespace pipec::runtime {

template <typename Base> void OfHost<Base>::check(const Label &label, const std::string &error) const {
  if (!error.empty())
    failure.raise(Status::run(fmt::format("{}: {}", plan::describe(place, *label.operation, label.microbatch), error)));
}

HostedStage::HostedStage(Handover &handover, LayerTable layers, const plan::Place &place, HostDevice &device,
                         const Clock &clock, Failure &failure)
    : OfHost(handover, std::move(layers), place, failure, device) {
  handover.attach(device, place, clock);
}

void HostedStage::gradientNorm(QueueId, const Label &label, Slot number) {
  double own = 0;
  check(label, handover.ask({.kind = Duty::Kind::Norm, .label = label}, &own));
  std::memcpy(number.data, &own, sizeof own);
}

void HostedStage::setGlobalNorm(QueueId, const Label &label, Slot number) {
  Duty clip{.kind = Duty::Kind::Clip, .label = label};
  std::memcpy(&clip.number, number.data, sizeof clip.number);
  check(label, handover.ask(std::move(clip)));
}

CudaHostedStage::CudaHostedStage(Handover &handover, LayerTable layers, const plan::Place &place, CudaDevice &device,
                                 Failure &failure)
    : OfHost(handover, std::move(layers), place, failure), device(device) {
  handover.stand(place, [&device] { device.driver().enter(); });
}

void CudaHostedStage::issue(QueueId queue, const Label &label, const StageSlots &slots) {
  void *const stream = device.begin(queue, label);
  if (label.operation->kind != plan::Kind::Overlapped && !failure.raised())
    check(label, handover.ask({.kind = Duty::Kind::Work, .label = label, .slots = slots, .stream = stream}));
}

void CudaHostedStage::gradientNorm(QueueId queue, const Label &label, Slot number) {
  check(label,
        handover.ask({.kind = Duty::Kind::Norm, .label = label, .slots = {{}, number}, .stream = device.on(queue)}));
}

void CudaHostedStage::setGlobalNorm(QueueId queue, const Label &label, Slot number) {
  check(label,
        handover.ask({.kind = Duty::Kind::Clip, .label = label, .slots = {number, {}}, .stream = device.on(queue)}));
}

} // namespace pipec::runtime
