// An executable is a rank's program ready to run: its queues are numbered as the device's, and each transfer and each
// computation has its slot (design, section 5): the n-th transfer of a step with a peer, in one direction, uses slot n
// mod size of its ring. It has the program twice, as one stream in issue order and by queue. Making an executable
// touches no queue and allocates nothing on the device, so another thread may make one while a program runs.
#pragma once

#include "runtime/device/Layout.h"
#include "runtime/device/Stream.h"
#include "runtime/interpreter/CallPoint.h"
#include "runtime/interpreter/TransferMemory.h"

#include <deque>
#include <memory>

namespace pipec::runtime {

class Executable {
public:
  /// `program` (loaded and proved) must live as long as `owner`, which is kept; `call` is its call point. Code::Check
  /// if the program needs queues or memory that are not there. `variant` is the variant of the program. It has the
  /// rings of peers, the figures of shards, and where samples change ranks. It is needed only if sends can reach the
  /// receiver's memory from here, with shards, or with stages on several ranks.
  static Status make(std::shared_ptr<const void> owner, const plan::Program &program, const CallPoint &call,
                     const Layout &layout, const TransferMemory &memory, std::shared_ptr<const Executable> &result,
                     const plan::Variant *variant = nullptr);

  /// Makes the program with which the rank of `training` evaluates (runtime/plan/Evaluation.h), on the same queues and
  /// in the same memory. It keeps `training`, which must have a variant.
  static Status makeEvaluation(const std::shared_ptr<const Executable> &training, const Layout &layout,
                               const TransferMemory &memory, std::shared_ptr<const Executable> &result);

  const Stream &whole() const { return stream; }
  /// By queue of the layout.
  const std::vector<Stream> &byQueue() const { return streams; }
  /// The call point; its queue is the layout's.
  const CallPoint &call() const { return callPoint; }
  /// The variant of the program, with shards; else null.
  const plan::Variant *variant() const { return sharded; }

private:
  Executable(std::shared_ptr<const void> owner, const plan::Program &program)
      : owner(std::move(owner)), program(program) {}
  static Status make(std::shared_ptr<const void> owner, const plan::Program &program, const CallPoint &call,
                     std::vector<uint32_t> queueOf, const Layout &layout, const TransferMemory &memory,
                     std::shared_ptr<const Executable> &result, const plan::Variant *variant);
  Status findSlots(const TransferMemory &memory, const plan::Variant *variant);
  void divide(size_t queues);
  void findWindows();
  void findPauses();

  std::shared_ptr<const void> owner;
  const plan::Program &program;
  CallPoint callPoint;
  const plan::Variant *ofVariant = nullptr, *sharded = nullptr;
  std::vector<uint32_t> queueOf;        // by queue of the program: the layout's queue
  std::deque<plan::Operation> timeless; // passes whose time is in the header of their pair
  Stream stream;
  std::vector<Stream> streams;
  std::vector<std::vector<Slot>> tables;   // slots by microbatch, one table per (stage, payload, direction)
  std::vector<std::vector<Slot>> landings; // the same for sends: the receiver's slots
};

} // namespace pipec::runtime
