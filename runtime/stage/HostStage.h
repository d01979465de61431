// The common part of stages on the host device: each instruction is one call of run(), on the device's thread.
#pragma once

#include "runtime/device/host/HostDevice.h"
#include "runtime/stage/Stage.h"

namespace pipec::runtime {

class HostStage : public HostBody, public Stage { // in this order: run() is what counts
public:
  /// The device must outlive the stage, and the stage the device's work. A device has one stage at a time: the next,
  /// for another cut, is made by the issuing thread between steps, once the last one is gone.
  explicit HostStage(HostDevice &device) : device(device) { device.serve(*this, *this); }

  void issue(QueueId queue, const Label &label, const StageSlots &slots) final {
    device.submit(queue, label, slots.in, slots.out, this);
  }

protected:
  HostDevice &device;
};

} // namespace pipec::runtime
