// What the stages on the host device have in common: each instruction is one call of run(), on the device's thread.
#pragma once

#include "runtime/device/host/HostDevice.h"
#include "runtime/stage/Stage.h"

namespace pipec::runtime {

class HostStage : public HostBody, public Stage { // in this order: run() is what counts
public:
  /// The device outlives the stage, and the stage the device's work. One stage a device.
  explicit HostStage(HostDevice &device) : device(device) { device.serve(*this, *this); }

  void forward(QueueId queue, const Label &label, const StageSlots &slots) final { submit(queue, label, slots); }
  void backwardInput(QueueId queue, const Label &label, const StageSlots &slots) final { submit(queue, label, slots); }
  void backwardWeight(QueueId queue, const Label &label) final { submit(queue, label, {}); }
  void backward(QueueId queue, const Label &label, const StageSlots &slots) final { submit(queue, label, slots); }
  void overlapped(QueueId queue, const Label &label) final { submit(queue, label, {}); }
  void optimizerStep(QueueId queue, const Label &label) final { submit(queue, label, {}); }

private:
  void submit(QueueId queue, const Label &label, const StageSlots &slots) {
    device.submit(queue, label, slots.in, slots.out, this);
  }
  HostDevice &device;
};

} // namespace pipec::runtime
