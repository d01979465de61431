// A rank's program made ready to be issued: its queues numbered as the device's, and for every transfer and every
// computation the slot found in advance (design, section 5): the n-th transfer of a step with a peer, in one direction,
// uses slot n mod size of its ring. Making one touches no queue and allocates nothing on the device, so it may happen
// on another thread while a program runs.
#pragma once

#include "runtime/device/Layout.h"
#include "runtime/interpreter/TransferMemory.h"

#include <memory>

namespace pipec::runtime {

class Executable {
public:
  /// `program` (loaded and proved) lives as long as `owner` does, which is kept. Refused (Code::Check) if the program
  /// needs queues or memory that are not there.
  static Status make(std::shared_ptr<const void> owner, const plan::Program &program, const Layout &layout,
                     const TransferMemory &memory, std::shared_ptr<const Executable> &result);

  /// One instruction of the rolled program.
  struct Item {
    const plan::Operation *operation;
    const Slot *in;  // of each microbatch; null: none
    const Slot *out; // likewise; of a transfer: its slot
    QueueId queue;
    uint32_t firstWait;
    uint32_t waits;
    int32_t microbatch;
    int32_t microbatchStride;
  };
  struct Wait {
    QueueId queue;
    bool previousStep;
    int64_t base;
    int64_t stride;
  };

  const std::vector<plan::Segment> &segments() const { return program.step; }
  const std::vector<Item> &items() const { return all; }
  const std::vector<Wait> &waits() const { return allWaits; }
  /// Instructions in a step, of each queue of the layout.
  const std::vector<int64_t> &executed() const { return counts; }

private:
  Executable(std::shared_ptr<const void> owner, const plan::Program &program)
      : owner(std::move(owner)), program(program) {}
  Status findSlots(const TransferMemory &memory);

  std::shared_ptr<const void> owner;
  const plan::Program &program;
  std::vector<Item> all;
  std::vector<Wait> allWaits;
  std::vector<int64_t> counts;
  std::vector<std::vector<Slot>> tables; // by microbatch, one for each (stage, payload, direction)
};

} // namespace pipec::runtime
