// From what the runtime asks of a stage to duties of the host.
#include "runtime/stage/hosted/HostedStage.h"

#include "runtime/plan/Disassemble.h"

#include <cstring>
#include <fmt/format.h>

namespace pipec::runtime {

HostedStage::HostedStage(Handover &handover, LayerTable layers, const plan::Place &place, HostDevice &device,
                         const Clock &clock)
    : OfHost(handover, std::move(layers), place, device) {
  handover.attach(device, place, clock);
}

void HostedStage::gradientNorm(QueueId, const Label &label, Slot number, const Then &then) {
  handover.ask({.kind = Duty::Kind::Norm, .label = label}, [number, then](double own) {
    std::memcpy(number.data, &own, sizeof own);
    then();
  });
}

void HostedStage::setGlobalNorm(QueueId, const Label &label, Slot number, const Then &then) {
  Duty clip{.kind = Duty::Kind::Clip, .label = label};
  std::memcpy(&clip.number, number.data, sizeof clip.number);
  handover.ask(std::move(clip), [then](double) { then(); });
}

CudaHostedStage::CudaHostedStage(Handover &handover, LayerTable layers, const plan::Place &place, CudaDevice &device,
                                 Failure &failure)
    : OfHost(handover, std::move(layers), place), device(device), failure(failure) {
  handover.stand(place, [&device] { device.driver().enter(); });
}

void CudaHostedStage::ask(Duty::Kind kind, const Label &label, const StageSlots &slots, void *stream) {
  const std::string error = handover.ask({.kind = kind, .label = label, .slots = slots, .stream = stream});
  if (!error.empty())
    failure.raise(Status::run(fmt::format("{}: {}", plan::describe(place, *label.operation, label.microbatch), error)));
}

void CudaHostedStage::issue(QueueId queue, const Label &label, const StageSlots &slots) {
  void *const stream = device.begin(queue, label);
  if (!plan::isHeader(label.operation->kind) && !failure.raised())
    ask(Duty::Kind::Work, label, slots, stream);
}

void CudaHostedStage::gradientNorm(QueueId queue, const Label &label, Slot number, const Then &then) {
  ask(Duty::Kind::Norm, label, {{}, number}, device.on(queue));
  then();
}

void CudaHostedStage::setGlobalNorm(QueueId queue, const Label &label, Slot number, const Then &then) {
  ask(Duty::Kind::Clip, label, {number, {}}, device.on(queue));
  then();
}

} // namespace pipec::runtime
