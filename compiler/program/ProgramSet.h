// The program set: the programs of all ranks as one value. Every pass below the design level reads and edits this
// value. It corresponds to LLVM's machine functions. It consists of dense arrays, because a walk over a million MLIR
// ops costs one or two cache misses per op. `pipe.program` ops are its text form (ProgramText.h).
#pragma once

#include "compiler/jobs/Jobs.h"
#include "compiler/program/Programs.h"
#include "compiler/program/Shards.h"
#include "runtime/plan/Plan.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/SmallSet.h"

#include <compare>
#include <optional>
#include <vector>

namespace pipec {

inline constexpr uint32_t kNone = ~uint32_t(0);

/// One instruction of a program: what it does in one microbatch, where it runs, and what it hands to or takes from
/// another queue. The two ends of such a hand-over name each other. Instructions of one queue need no links, since they
/// run in order.
struct Instruction {
  uint32_t operation = 0; // in Program::operations: all that does not depend on the microbatch
  int32_t microbatch = 0;
  uint32_t queue = 0; // in Program::queues
  uint32_t place = 0; // in Program::places
  /// The instruction on another queue with the result that this one takes. For a pass: its receive; for a send: its
  /// pass; for a W on the weights queue: its B or F, whichever is later in the program. For a receive: its index in
  /// ProgramSet::transfers. kNone: nothing.
  uint32_t in = kNone;
  /// The instruction on another queue that takes the result. For a pass: its send; for a receive: its pass. For a send:
  /// its index in ProgramSet::transfers. kNone: none.
  uint32_t out = kNone;
};

/// A wait in addition to `in`: `user` starts after `definition` has completed. Both are instructions of one program.
struct Use {
  uint32_t user = 0, definition = 0;
  auto operator<=>(const Use &) const = default;
};

/// Instructions of a rank with equal keys share a queue.
struct QueueKey {
  plan::Queue queue;
  std::pair<int32_t, int> ends; // the peers of a communicator (queueKey()); {} for the device's own queues
  bool operator==(const QueueKey &) const = default;
};

/// Transfer buffers.
struct Ring : plan::Ring {
  /// Whether data dependences ensure that all transfers of a step end before the next step takes a slot. One wait then
  /// replaces the waits for all slots.
  bool drained = false;
  bool operator==(const Ring &) const = default;
};

/// The program of one rank.
struct Program {
  int32_t rank = 0;
  mlir::Location place; // for errors about the program as a whole
  pipe::Communicator communicator = pipe::Communicator::PerEdge;
  std::vector<int32_t> stages;
  bool fillsWeights = false;      // W run on a separate queue whenever the compute queue waits
  int32_t copies = 1, slices = 1; // as in schedule::Problem
  plan::Bytes staticBytes = 0, workspace = 0;
  std::optional<plan::Bytes> memoryLimit;
  std::optional<std::vector<Ring>> rings; // transfer buffers; absent until slots are allocated

  std::vector<QueueKey> queues = {QueueKey()}; // the first is the compute queue
  std::vector<plan::Operation> operations;     // instructions that differ only in the microbatch share an operation
  std::vector<plan::Bytes> yields;             // by operation: bytes of the tensor that a pass yields; -1: none
  std::vector<mlir::Location> places;
  std::vector<Instruction> instructions; // in issue order
  std::vector<Use> uses;                 // ascending
  std::vector<Use> carried;              // ascending; the definition is in the step before
  int32_t job = -1;                      // once windows are open: index in ProgramSet::jobs; -1: none
  int64_t piece = 0;                     // piece of the job, in atoms
  std::vector<plan::Window> windows;     // windows for its pieces, by instruction

  explicit Program(mlir::Location place) : place(place) {}

  const plan::Operation &of(const Instruction &instruction) const { return operations[instruction.operation]; }
  plan::Kind kind(const Instruction &instruction) const { return of(instruction).kind; }
  bool onWeightsQueue(const Instruction &instruction) const {
    return queues[instruction.queue].queue.priority == plan::Priority::Weights;
  }
  /// "F stage 3 microbatch 7"
  std::string nameOf(uint32_t instruction) const;
  mlir::Location placeOf(uint32_t instruction) const { return places[instructions[instruction].place]; }
  mlir::InFlightDiagnostic emitError(uint32_t instruction) const { return mlir::emitError(placeOf(instruction)); }
  plan::Bytes yieldOf(uint32_t instruction) const { return yields[instructions[instruction].operation]; }

  /// The index in `operations` of an equal operation; a missing operation is added.
  uint32_t indexOf(const plan::Operation &operation, plan::Bytes yielded = -1);
  /// The index in `queues` of the queue that an operation runs on; a missing queue is added. Only this function turns
  /// the communicator and `fillsWeights` into queues.
  uint32_t queueFor(const plan::Operation &operation);
  /// Changes which transfers share a queue; every instruction moves to the queue that follows.
  void useCommunicator(pipe::Communicator other);
  /// Drops operations that no instruction uses.
  void dropUnused();
  /// Puts `uses` and `carried` in ascending order after some were appended.
  void sortUses();

private:
  /// The last operation added for each stage, kind and payload. Mostly there is only one; if several alternate,
  /// indexOf() may add an equal one again.
  llvm::DenseMap<uint64_t, uint32_t> index;
};

/// One transfer, by the instructions at its ends.
struct Transfer {
  int32_t from = 0, to = 0;            // ranks
  uint32_t send = kNone, recv = kNone; // on `from`, on `to`
  bool operator==(const Transfer &) const = default;
};

/// The times of a predicted run. Present if no transfer in that run waited for a slot, so that the times hold with and
/// without allocated slots.
struct Predicted {
  plan::Time makespan = 0, span = 0;
};

struct ProgramSet {
  std::vector<Program> programs;   // programs[r] is rank r's
  std::vector<plan::Group> groups; // groups of world ranks for collectives; plan::Operation::group is an index here
  std::vector<Transfer> transfers;
  std::optional<Predicted> predicted;
  int32_t degree = 1;              // replicas of each rank
  std::vector<plan::Layer> layers; // what the replicas exchange, if there are several (plan::Variant::layers)
  bool sharedPort = false;         // plan::Variant::sharedPort
  std::optional<Shards> shards;    // of each rank; absent: there are none
  std::optional<jobs::Jobs> jobs;  // background jobs for the time in which ranks wait; absent: there are none
  /// As in plan::Variant if several ranks run a stage; else 0, and the next two are empty.
  int64_t batch = 0;
  std::vector<int32_t> stageGroups;
  std::vector<plan::Bytes> boundaries;
  std::vector<plan::SharedWeight> shared; // plan::Variant's

  size_t ranks() const { return programs.size(); }
  size_t instructions() const;
  /// The pass on `from` that makes the tensor of a transfer, and the pass on `to` that takes it.
  uint32_t producerOf(const Transfer &transfer) const {
    return programs[size_t(transfer.from)].instructions[transfer.send].in;
  }
  uint32_t consumerOf(const Transfer &transfer) const {
    return programs[size_t(transfer.to)].instructions[transfer.recv].out;
  }
  /// The index of the group of these ranks (ascending); a missing group is added.
  int32_t groupOf(std::vector<int32_t> ranks);

  //===--------------------------------------------------------------------===//
  // Edits. Instructions move; uses, hand-overs and transfers still name the same instructions.
  //===--------------------------------------------------------------------===//

  /// Inserts an instruction before the one at `at`. The new instruction has no hand-over and no use. O(instructions of
  /// the rank).
  void insert(size_t rank, uint32_t at, const plan::Operation &operation, int32_t microbatch, mlir::Location place);
  /// Gives the instruction another operation and that operation's queue; the microbatch and links stay.
  void replace(size_t rank, uint32_t at, const plan::Operation &operation);
  /// Removes an instruction with all uses by it and of it. For a send or receive, removes the other end as well.
  /// O(instructions of the ranks).
  void erase(size_t rank, uint32_t at);
  /// Puts a rank's instructions in the order of `order`, which holds their indices; instructions that are not in
  /// `order` are removed. O(instructions and uses of the rank).
  void reorder(size_t rank, const std::vector<uint32_t> &order);
  /// Adds the send and the receive for the tensor that `producer` on rank `from` makes and `consumer` on rank `to`
  /// takes. Both are appended to their ranks' instructions until reorder() puts them in place. `send` and `recv` are
  /// indices of operations in the two programs.
  void addTransfer(int32_t from, uint32_t producer, uint32_t send, int32_t to, uint32_t consumer, uint32_t recv);

  /// Checks the links between instructions: says what is wrong; an empty string if nothing is. For tests and
  /// assertions.
  std::string check() const;

private:
  void moved(size_t rank, const std::vector<uint32_t> &placed);
};

/// The all-reduce of a gradient norm over all processes, with a time of `cost`, on the rank with `stage` as its first
/// stage.
plan::Operation normOf(int32_t stage, plan::Time cost);

/// The world ranks of all replicas of some ranks, rank by rank.
std::vector<int32_t> processesOf(const std::vector<int32_t> &ranks, int32_t degree);

/// The stages of a program with an R; their F hold an input.
llvm::SmallSet<int32_t, 4> recomputedStages(const Program &program);

/// By rank: the passes of its program in order. A pass in parts counts where its first part runs.
schedule::Words wordsOf(const ProgramSet &set);

} // namespace pipec
