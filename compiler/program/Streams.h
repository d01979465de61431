// The programs as passes walk them: dense arrays beside the ops, because a walk over a million ops costs a cache miss
// or two at each. Made once, from the ops or from the words that ops are made from, and kept true by every pass that
// adds or moves ops, so it is an analysis that all of them preserve. Where nobody reads the ops there are none: making
// them costs more than all that is asked of them.
#pragma once

#include "compiler/program/Programs.h"
#include "runtime/plan/Plan.h"

#include "mlir/IR/Diagnostics.h"

#include <compare>
#include <optional>
#include <vector>

namespace pipec {

inline constexpr uint32_t kNone = ~uint32_t(0);

/// One op of a program.
struct Record {
  uint32_t operation = 0; // in Stream::operations
  int32_t microbatch = 0;
  // Where its data come from and go to: records of this rank, except at the far side of a transfer, which is an index
  // into Streams::transfers. Of a W on a queue of its own, `in` is the last of what it takes. kNone:
  // nothing that crosses queues.
  uint32_t in = kNone;
  uint32_t out = kNone;
};

/// One use besides `in`: of a token, mostly.
struct Use {
  uint32_t user = 0, definition = 0; // records
  auto operator<=>(const Use &) const = default;
};

/// What only its op would say of a record.
struct Origin {
  mlir::Location place;
  int64_t yields = -1; // bytes of a tensor; -1: none
};

/// The program of one rank.
struct Stream {
  pipe::ProgramOp program;
  std::vector<plan::Operation> operations; // what differs in no more than the microbatch is one
  std::vector<Origin> origins;             // of operations, but those of transfers; none where ops are read
  std::vector<Record> records;             // in issue order
  std::vector<mlir::Operation *> ops;      // of each record; null: decided upon, not yet made. Empty: there are none
  std::vector<Use> uses;                   // in ascending order

  const plan::Operation &of(const Record &record) const { return operations[record.operation]; }
  plan::Kind kind(const Record &record) const { return of(record).kind; }
  bool hasOps() const { return !ops.empty(); }
  /// "F stage 3 microbatch 7"
  std::string nameOf(uint32_t record) const;
  /// Of a transfer, that of its pass.
  mlir::Location placeOf(uint32_t record) const;
  mlir::InFlightDiagnostic emitError(uint32_t record) const;
  /// Bytes of the tensor that a pass yields; -1: none.
  int64_t yieldOf(uint32_t record) const;
  /// The index of an equal operation, added if there is none.
  uint32_t indexOf(const plan::Operation &operation);
  /// Puts uses that were appended into order.
  void sortUses();

private:
  llvm::DenseMap<uint64_t, uint32_t> index; // by stage, kind and payload: in a right program that is all
};

/// One transfer, by the records at its ends.
struct Transfer {
  int32_t from = 0, to = 0;            // ranks
  uint32_t producer = 0, send = kNone; // on `from`
  uint32_t consumer = 0, recv = kNone; // on `to`
  bool operator==(const Transfer &) const = default;
};

struct Streams {
  /// Reports what is wrong with the programs as a set; then not valid.
  explicit Streams(mlir::Operation *module);

  bool valid = false;
  std::vector<Stream> ranks;
  std::vector<Transfer> transfers; // once matched

  /// Finds the transfers by what they carry (payload, stage, microbatch), unless they are known; an error where a send
  /// has no receive or the other way round, or no pass at its end.
  mlir::LogicalResult match();

  /// Every transfer names a rank that has a program; else an error at one that does not.
  mlir::LogicalResult checkPeers() const;

  /// Puts a rank's records in this order, given by their indices; transfers follow by fixTransfers().
  void permute(size_t rank, const std::vector<uint32_t> &order);
  void fixTransfers();

  /// Puts a rank's ops in the order of its records.
  void moveOps(size_t rank);

  bool matched = false;    // `transfers` are known
  bool keepVisits = false; // of the walk that proves them (Lowered.h)

  /// The predicted run, where no slot is ever waited for, so that slots change no time of it.
  struct Predicted {
    plan::Time makespan = 0, span = 0;
  };
  std::optional<Predicted> predicted;
};

/// The words of the programs.
schedule::Words wordsOf(const Streams &streams);

} // namespace pipec
