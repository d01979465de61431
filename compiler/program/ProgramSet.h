// The programs of all ranks as one value, the program set: what every pass below the design level reads and edits. It
// is to the dialect what machine functions are to LLVM IR: dense arrays, because a walk over a million ops costs a
// cache miss or two at each. Its text is `pipe.program` (ProgramText.h).
#pragma once

#include "compiler/program/Programs.h"
#include "runtime/plan/Plan.h"

#include "mlir/IR/Diagnostics.h"

#include <compare>
#include <optional>
#include <vector>

namespace pipec {

inline constexpr uint32_t kNone = ~uint32_t(0);

/// One instruction of a program: what it does in one microbatch, where it runs, what it takes and what it makes. Both
/// ends of a hand-over name each other; of what stays on its queue the order says it all.
struct Instruction {
  uint32_t operation = 0; // its kind, stage, layers, group and cost: in Program::operations
  int32_t microbatch = 0;
  uint32_t queue = 0; // in Program::queues
  uint32_t place = 0; // in Program::places
  /// What it takes from another queue: of a pass the receive, of a send the pass, of a W on the weights queue its B or
  /// F, whichever stands later. Of a receive: the transfer, in ProgramSet::transfers. kNone: nothing.
  uint32_t in = kNone;
  /// What it makes for another queue: of a pass the send, of a receive the pass. Of a send: the transfer.
  uint32_t out = kNone;
};

/// What an instruction waits for besides `in`.
struct Use {
  uint32_t user = 0, definition = 0; // instructions of one program
  auto operator<=>(const Use &) const = default;
};

/// What shares a queue of a rank: its class and, of transfers and collectives, with whom it talks.
struct QueueKey {
  plan::Queue queue;
  std::pair<int32_t, int> ends; // as queueKey() says; of device queues {}
  bool operator==(const QueueKey &) const = default;
};

/// The program of one rank.
struct Program {
  int32_t rank = 0;
  mlir::Location place; // of the program as a whole
  pipe::Communicator communicator = pipe::Communicator::PerEdge;
  std::vector<int32_t> stages;
  bool fillsWeights = false; // W run on a queue of their own, whenever the compute queue waits
  int32_t copies = 1, slices = 1;
  plan::Bytes staticBytes = 0, workspace = 0;
  std::optional<plan::Bytes> memoryLimit;
  std::optional<std::vector<plan::Ring>> rings; // once slots are allocated

  std::vector<QueueKey> queues = {QueueKey()}; // row 0: compute
  std::vector<plan::Operation> operations;     // what differs in no more than the microbatch is one
  std::vector<plan::Bytes> yields;             // of operations: bytes of the tensor that a pass yields; -1: none
  std::vector<mlir::Location> places;
  std::vector<Instruction> instructions; // in issue order
  std::vector<Use> uses;                 // in ascending order

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

  /// The index of an equal operation, added if there is none.
  uint32_t indexOf(const plan::Operation &operation, plan::Bytes yielded = -1);
  /// The queue on which an operation of this program runs, added if there is none: the only place where the
  /// communicator and `fillsWeights` become queues.
  uint32_t queueFor(const plan::Operation &operation);
  /// What shares a transfer queue from now on; every instruction goes to the queue that follows from it.
  void useCommunicator(pipe::Communicator other);
  /// Puts uses that were appended into order.
  void sortUses();

private:
  llvm::DenseMap<uint64_t, uint32_t> index; // by stage, kind and payload: mostly that is all
};

/// One transfer, by the instructions at its ends.
struct Transfer {
  int32_t from = 0, to = 0;            // ranks
  uint32_t producer = 0, send = kNone; // on `from`
  uint32_t consumer = 0, recv = kNone; // on `to`
  bool operator==(const Transfer &) const = default;
};

/// The predicted run of programs in which no slot is ever waited for, so that slots change no time of it.
struct Predicted {
  plan::Time makespan = 0, span = 0;
};

struct ProgramSet {
  std::vector<Program> programs;   // programs[r] is rank r's
  std::vector<plan::Group> groups; // of collectives, by ranks; what an operation's group is an index of
  std::vector<Transfer> transfers;
  std::optional<Predicted> predicted;

  size_t ranks() const { return programs.size(); }
  size_t instructions() const;
  /// The index of the group of these ranks, added if there is none. Ascending.
  int32_t groupOf(std::vector<int32_t> ranks);

  //===--------------------------------------------------------------------===//
  // Edits. Each keeps uses, hand-overs and transfers right: they name what they named before.
  //===--------------------------------------------------------------------===//

  /// Puts an instruction before the one at `at`; it takes and makes nothing yet. O(instructions of the rank).
  void insert(size_t rank, uint32_t at, const plan::Operation &operation, int32_t microbatch, mlir::Location place);
  /// Another operation at this place, in the same microbatch, on the queue that goes with it.
  void replace(size_t rank, uint32_t at, const plan::Operation &operation);
  /// Takes an instruction out, with all uses of it; of a transfer both ends. O(instructions of the ranks).
  void erase(size_t rank, uint32_t at);
  /// Puts a rank's instructions in this order, given by their indices. O(instructions and uses of the rank).
  void reorder(size_t rank, const std::vector<uint32_t> &order);
  /// Sends what `producer` of rank `from` makes to `consumer` of rank `to`. Both ends stand behind all else of their
  /// ranks until reorder() puts them in their places. `send` and `recv` are operations of the two programs.
  void addTransfer(int32_t from, uint32_t producer, uint32_t send, int32_t to, uint32_t consumer, uint32_t recv);

  /// What is wrong with the links between instructions, for tests and assertions; empty: nothing.
  std::string check() const;

private:
  void moved(size_t rank, const std::vector<uint32_t> &placed);
};

/// The words of the programs.
schedule::Words wordsOf(const ProgramSet &set);

} // namespace pipec
