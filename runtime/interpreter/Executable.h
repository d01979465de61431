// A rank's program made ready to be run: its queues numbered as the device's, and for every transfer and every
// computation the slot found in advance (design, section 5): the n-th transfer of a step with a peer, in one direction,
// uses slot n mod size of its ring. The program stands here twice, as one stream in issue order and by queue. Making
// one touches no queue and allocates nothing on the device, so it may happen on another thread while a program runs.
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
  /// `program` (loaded and proved) lives as long as `owner` does, which is kept; `call` is its call point. Refused
  /// (Code::Check) if the program needs queues or memory that are not there. `variant`, whose program it is, has the
  /// rings of the peers, what is the own of shards and where samples change ranks: only needed where the memory in
  /// which sends land is reached from here, and where there are shards or stages on several ranks.
  static Status make(std::shared_ptr<const void> owner, const plan::Program &program, const CallPoint &call,
                     const Layout &layout, const TransferMemory &memory, std::shared_ptr<const Executable> &result,
                     const plan::Variant *variant = nullptr);

  /// The program with which the rank of `training` evaluates (runtime/plan/Evaluation.h), on the same queues and in the
  /// same memory. It keeps `training`, which has a variant.
  static Status makeEvaluation(const std::shared_ptr<const Executable> &training, const Layout &layout,
                               const TransferMemory &memory, std::shared_ptr<const Executable> &result);

  const Stream &whole() const { return stream; }
  /// Of each queue of the layout.
  const std::vector<Stream> &byQueue() const { return streams; }
  /// Its queue is the layout's.
  const CallPoint &call() const { return callPoint; }
  /// Whose program it is, where ranks have shards; else null.
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
  std::vector<uint32_t> queueOf;        // the layout's queue of each of the program's
  std::deque<plan::Operation> timeless; // of passes whose time their pair's header has
  Stream stream;
  std::vector<Stream> streams;
  std::vector<std::vector<Slot>> tables;   // by microbatch, one for each (stage, payload, direction)
  std::vector<std::vector<Slot>> landings; // likewise, of sends: the receiver's slots
};

} // namespace pipec::runtime
