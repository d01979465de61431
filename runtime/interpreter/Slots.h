// Which transfer slot an instruction reads or writes (design, section 5): the n-th transfer of a step with a peer, in
// one direction, uses slot n mod size of its ring. A receive stands before its consumer, which finds the slot by what
// arrived; a producer stands before its send, so its slot is found by looking ahead to the send.
#pragma once

#include "runtime/device/Device.h"
#include "runtime/plan/Status.h"
#include "runtime/stage/Stage.h"

#include <set>
#include <unordered_map>
#include <vector>

namespace pipec::runtime {

class Slots {
public:
  /// `payloadLimit` caps what a slot holds and a transfer carries; `program` outlives this.
  Slots(const plan::Program &program, plan::Bytes payloadLimit);

  /// Allocates every ring, once.
  Status allocate(Device &device);

  void beginStep();

  /// In issue order, once for each instruction.
  Slot ofTransfer(const plan::Step &step);
  StageSlots ofCompute(const plan::Step &step);

private:
  using Key = uint64_t; // (stage, payload, microbatch) of this rank's side
  static Key keyOf(int32_t stage, plan::Payload of, int64_t microbatch);

  struct Ring {
    const plan::Ring *plan = nullptr;
    std::byte *data = nullptr;
    plan::Bytes slotBytes = 0;
    int64_t issued = 0; // transfers of this step so far
    int64_t seen = 0;   // likewise, by the look-ahead
  };
  Slot slot(const Ring &ring, const plan::Operation &operation, int64_t n) const;
  Ring &ringOf(const plan::Operation &operation);
  Slot produced(int32_t stage, plan::Payload of, int64_t microbatch);
  Slot consumed(int32_t stage, plan::Payload of, int64_t microbatch);

  const plan::Program &program;
  plan::Bytes payloadLimit;
  std::vector<Ring> rings;
  std::set<Key> sent;                      // which stages' activations or gradients leave; microbatch 0 stands for all
  plan::Cursor ahead;                      // looks for sends
  std::unordered_map<Key, Slot> arrived;   // received, not yet consumed
  std::unordered_map<Key, Slot> announced; // sends that the look-ahead has passed
};

} // namespace pipec::runtime
