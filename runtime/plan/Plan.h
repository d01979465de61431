// A plan in memory: every rank's instruction stream (design, section 5). Plain structs; no FlatBuffers type appears
// here. Times are picoseconds, sizes bytes. Load.h turns a file into these and promises that a loaded plan can be run
// without further checks; Write.h turns them into a file.
#pragma once

#include "runtime/plan/Kinds.h"
#include "runtime/plan/LeastTime.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace pipec::plan {

using Time = int64_t;  // picoseconds
using Bytes = int64_t; // bytes

/// One kind of work of a program; instructions refer to it and add the microbatch.
struct Operation {
  Kind kind = Kind::Forward;
  Payload of = Payload::None; // transfers and collectives: what they carry
  int32_t stage = 0;          // of a transfer: the stage on this side (the sender's for Send, the receiver's for Recv)
  int32_t peer = -1;          // transfers: the rank at the other end; else -1
  Time cost =
      0; // compute: its duration (of shards from their first sum to their last; of an F and a backward in a pair, when
         // alone; of a pair's header, that of both together); transfer: how long it holds its link (bytes / bandwidth)
  Time latency = 0;     // transfers: from the wire's end to the data's arrival
  Bytes bytes = 0;      // transfers and collectives: the payload; passes: what memory they have of kInput
  Bytes activation = 0; // of kActivation
  Bytes context = 0;    // of kContexts
  int32_t group = -1;   // who takes part, an index into Plan::groups: of collectives; -1: all processes. Of others: of
                        // the sums between the shards of a rank; -1: they have none
  int32_t firstLayer = 0; // of the stage, where the operation is about some of its layers alone; of a sum of a shared
                          // weight: which, an index into Variant::shared
  int32_t layers = 0;     // how many; 0: all of the stage's (of a collective: of all stages of the rank)
  Bytes begin = 0;        // collectives of layers: the bytes of the stage's gradients (weights), its layers laid end to
  Bytes end = 0;          // end, that they carry; of a shared weight: those of all of Variant::shared, laid end to end
  bool operator==(const Operation &) const = default;
};

/// Whether it is a pass or an update with sums between the shards of its rank.
inline bool meets(const Operation &operation) { return !isCollective(operation.kind) && operation.group != -1; }

/// Whether a collective is of the gradients or weights of some layers, between the replicas of a rank, or of the
/// gradients of a weight that layers of several ranks have in common.
inline bool isOfLayers(const Operation &operation) { return isCollective(operation.kind) && operation.layers > 0; }
/// Whether it is the latter.
inline bool isOfShared(const Operation &operation) {
  return isCollective(operation.kind) && operation.of == Payload::Shared;
}

/// The stage in whose gradients (weights) the bytes of a collective of layers lie; kSharedWeights: in those of
/// Variant::shared.
inline constexpr int32_t kSharedWeights = -1;
inline int32_t ownerOf(const Operation &operation) { return isOfShared(operation) ? kSharedWeights : operation.stage; }

/// Whether it is one of the collectives that a rank starts in one order, whatever their groups: all but a norm, and
/// sums of copies' gradients.
inline bool isExchange(const Operation &operation) {
  return isOfLayers(operation) || plan::movesSamples(operation.kind);
}

/// The stage that takes what a stage gives, be there one or not.
constexpr int32_t takerOf(int32_t stage, Payload gives) { return gives == Payload::Backward ? stage - 1 : stage + 1; }
/// The stage that gives what a stage takes, likewise.
constexpr int32_t giverOf(int32_t stage, Payload takes) { return takes == Payload::Backward ? stage + 1 : stage - 1; }

/// Of a device queue. Values stand in plan files; urgencyOf() says who goes first where two could start.
enum class Priority : uint8_t { Compute = 0, Weights = 1, Jobs = 2, Updates = 3 };
constexpr int urgencyOf(Priority priority) { // the least goes first
  return priority == Priority::Updates ? -1 : int(priority);
}
enum class QueueKind : uint8_t { Device = 0, Communicator = 1 };

/// An in-order stream of work of one rank. Queue 0 is the compute queue.
struct Queue {
  QueueKind kind = QueueKind::Device;
  Priority priority = Priority::Compute; // Device only
  bool operator==(const Queue &) const = default;
};
/// Which instructions may stand on it (KindRow::queues).
inline QueueClass classOf(const Queue &queue) {
  return queue.kind == QueueKind::Communicator ? kCommunicator
         : queue.priority == Priority::Compute ? kComputeQueue
         : queue.priority == Priority::Updates ? kUpdatesQueue
                                               : kWeightsQueue;
}

/// The bytes that an operation has of a set of Memory.
inline __int128 bytesOf(const Operation &operation, unsigned memory) {
  return __int128((memory & kActivation) != 0 ? operation.activation : 0) +
         ((memory & kContexts) != 0 ? operation.context : 0) + ((memory & kInput) != 0 ? operation.bytes : 0);
}
/// By how much an operation adds to what is live when it starts: what its kind holds, less what is handed over to it.
inline __int128 takenBy(const Operation &operation) {
  const KindRow &row = rowOf(operation.kind);
  return bytesOf(operation, row.holds) - bytesOf(operation, row.frees & kHandedOver);
}
/// What it gives back when it ends.
inline __int128 freedBy(const Operation &operation) {
  return bytesOf(operation, rowOf(operation.kind).frees & ~unsigned(kHandedOver));
}

/// Met once `count` instructions of `queue` have completed since the start of this step or, with previousStep, of the
/// step before; in the first step the latter is always met. In trip t of the wait's segment, count = base + stride * t.
struct Wait {
  uint32_t queue = 0;
  bool previousStep = false;
  int64_t base = 0;
  int64_t stride = 0;
  bool operator==(const Wait &) const = default;
};

/// In trip t of its segment an instruction is about the microbatch `microbatch + microbatchStride * t`. The optimizer
/// has microbatch 0. The waits of all instructions follow each other in instruction order, without gap or overlap.
struct Instruction {
  uint32_t operation = 0; // index into Program::operations
  uint32_t queue = 0;     // index into Program::queues
  uint32_t firstWait = 0; // its waits: Program::waits[firstWait, firstWait + waits)
  uint32_t waits = 0;
  int32_t microbatch = 0;
  int32_t microbatchStride = 0;
  bool operator==(const Instruction &) const = default;
};

/// instructions[first, first + count), `trips` times. Array order is issue order; segments follow each other and cover
/// all instructions.
struct Segment {
  uint32_t first = 0;
  uint32_t count = 0;
  uint32_t trips = 1;
  bool operator==(const Segment &) const = default;
};

enum class Direction : uint8_t { Send = 0, Recv = 1 };

/// The transfer buffers of one direction with one peer: the n-th transfer of a step (from 0) uses slot n mod size, so
/// each step begins at slot 0 again.
struct Ring {
  int32_t peer = 0;
  Direction direction = Direction::Send;
  uint32_t size = 1;   // slots
  Bytes slotBytes = 0; // the largest payload
  bool operator==(const Ring &) const = default;
};

/// Background work of one process, in iterations of so many atoms. A *piece* is some of its atoms one after the other:
/// once begun it runs to its end.
struct Job {
  std::string name;
  int64_t samples = 1, atoms = 1; // of an iteration
  Time atom = 0;                  // what one takes
  Time overhead = 0;              // what a piece takes besides
  Bytes memory = 0;               // on each rank that runs it
  std::vector<uint8_t> provider;  // a FlexBuffer for the job's library; empty: none
  bool operator==(const Job &) const = default;
};

/// How long pieces may fill the wait of an instruction of the compute queue. The start of such an instruction is a
/// *resume*.
struct Window {
  uint32_t instruction = 0; // index into Program::instructions; in each of its trips
  Time length = 0;
  Time from = 0; // so long after the device is free the first may begin
  bool operator==(const Window &) const = default;
};

/// What one pipeline rank runs.
struct Program {
  int32_t rank = 0;
  std::vector<int32_t> stages; // held by this rank, ascending
  std::vector<Queue> queues;
  std::vector<Ring> rings;
  std::vector<Operation> operations;
  std::vector<Instruction> instructions;
  std::vector<Wait> waits;
  std::vector<Segment> step;
  Bytes staticBytes = 0;
  Bytes workspace = 0;
  Bytes memoryLimit = 0;       // where it is less than the variant's; 0: the variant's
  int32_t job = -1;            // index into Variant::jobs; -1: none
  int64_t piece = 0;           // of the job, in atoms
  std::vector<Window> windows; // ascending
  bool operator==(const Program &) const = default;

  /// Whether it has nothing else to do than its job, which then runs all the time.
  bool runsJobAlone() const { return job >= 0 && instructions.empty(); }
};

/// Which argument a lower bound rests on; compiler/schedule/bounds/Bounds.h has the proofs.
enum class Bound : uint8_t {
  None = 0,
  CriticalPath = 1,
  Work = 2,
  WarmUp = 3,
  MemoryChain = 4,
  Area = 5,
  LastDevice = 6,
  Exact = 7,
  Exchange = 8, // of gradients between replicas
};
const char *name(Bound bound);

struct Certificate {
  Time makespan = 0;
  Time span = 0;
  LeastTime lowerBound; // of the makespan
  LeastTime spanLowerBound;
  Bound bound = Bound::None;
  Bound spanBound = Bound::None;
  Time delay = 0;           // the most by which pieces of jobs make a step longer, in the mean of many
  bool delayProven = false; // in any timing; else of this plan's own times alone
  bool operator==(const Certificate &) const = default;
};

/// A layer of a stage of which there are replicas.
struct Layer {
  int32_t stage = 0;
  Bytes gradients = 0;  // what the replicas sum
  Bytes weights = 0;    // what a gather moves, where it is sharded
  bool sharded = false; // each replica updates its share of it
  bool operator==(const Layer &) const = default;
};

/// A weight that several layers hold. Each rank that has any of them keeps one copy of it. Where these are several
/// ranks, they sum its gradients once a step.
struct SharedWeight {
  std::vector<int32_t> layers; // of the model (where the plan has no cut, a stage is one layer); two or more, ascending
  std::vector<int32_t> stages; // that have these layers; one or more, ascending
  Bytes gradients = 0;         // what each rank adds
  bool operator==(const SharedWeight &) const = default;
};

/// What an operation takes and holds on one of the shards of its rank. An operation with sums is its own time before
/// the first of them, then `cost` (Operation) once all shards of the rank have come so far, and its own time behind the
/// last. `cost` is that of the sums and the longest `between` of all shards, exact where one shard is the slowest
/// between any two sums. One without sums is `before`, and its cost 0. Of what is no pass and no update all are 0.
struct OwnCost {
  Time before = 0;
  Time between = 0; // its own time from its first sum to its last; it waits or sums for the rest of `cost`
  Time after = 0;
  Bytes activation = 0, context = 0; // as Operation's, in their place
  Time own() const { return before + between + after; }
  bool operator==(const OwnCost &) const = default;
};

/// A process of a rank that has shards: what is its own beside the program that all of them run.
struct Own {
  int64_t factor = kWhole;              // how many times as long its own work takes as on a healthy device
  std::vector<OwnCost> operations;      // as Program::operations
  Bytes staticBytes = 0, workspace = 0; // as Program's, which are those of the shard that has most
  bool operator==(const Own &) const = default;
  static constexpr int64_t kWhole = 1'000'000; // of factors: 1
};

/// Units of a split, from `first` on.
struct Range {
  int64_t first = 0;
  int64_t count = 0;
  bool operator==(const Range &) const = default;
};

/// What a shard has of a split of some layers of a stage, of each of them the same.
struct Portion {
  int32_t stage = 0;
  int32_t shard = 0;
  int32_t firstLayer = 0; // of the stage
  int32_t layers = 0;
  std::string split;
  int64_t units = 0;         // of the split
  std::vector<Range> owned;  // ascending, apart: weights and optimizer state
  std::vector<Range> worked; // likewise: computed there
  int64_t kept = 0;          // how many of the worked ones are not left out
  bool operator==(const Portion &) const = default;
};
inline int64_t unitsIn(const std::vector<Range> &ranges) {
  int64_t all = 0;
  for (const Range &each : ranges)
    all += each.count;
  return all;
}

/// One of the interchangeable schedules of a plan. programs[r] is rank r's.
struct Variant {
  std::string name;         // for people, as the schedule's; may be empty (stripped)
  std::string schedule;     // what made it: "kfkb"
  int32_t stages = 0;       // of all copies
  int32_t microbatches = 0; // of one copy; each slice is one
  int32_t copies = 1;       // pipelines side by side, their stages one after the other
  int32_t slices = 1;       // so many microbatches, one after the other, are the slices of one sequence
  Bytes memoryLimit = 0;    // of the rank that may hold most; 0: none
  std::vector<Program> programs;
  Certificate certificate;
  std::vector<int32_t> cut; // layers of each stage of a copy; empty: the spec had none
  LeastTime cutBound;       // no cut has a plan that takes less (of what was to be short); 0: it was not chosen
  /// Whether it is proven and timed for a network that starts the sends, receives and all-reduces of a rank in the
  /// order in which they are issued: none before all earlier ones have started (simulate::Launch).
  bool launchOrder = false;
  /// With replicas, of all stages, in the order of stages and within them; else empty.
  std::vector<Layer> layers;
  /// Whether collectives with replicas and transfers take turns on the port of their rank: a transfer holds the
  /// sender's outward and the receiver's inward, a collective both; it goes first where both could, neither is
  /// interrupted.
  bool sharedPort = false;
  /// Where ranks have shards, of each process, as many of each rank: rank * shards + shard; else empty.
  std::vector<Own> own;
  std::vector<Portion> portions; // by stage, layers, split and shard
  std::string balance;           // what made them, as JSON: {"name": "auto"}
  std::vector<Job> jobs;         // the same in all variants
  int64_t slowDown = 0;          // of a step, what jobs may cost, in millionths
  int64_t batch = 0;             // samples of a step, where several ranks share each stage's; else 0
  /// Where several ranks do a stage, each with its part of the batch (sample i is on member i mod members): of each
  /// stage, an index into Plan::groups, the first ranks of all; -1: rank 0 alone. Else empty.
  std::vector<int32_t> stageGroups;
  /// Likewise, of each stage: the bytes of a sample that it hands on to the next, and takes back; of the last 0. Empty
  /// too where a plan before 1.10 does not say.
  std::vector<Bytes> boundaries;
  std::vector<SharedWeight> shared; // in the order in which ranks sum them; the same in all variants
  bool operator==(const Variant &) const = default;

  /// Of each rank: how many processes share its matrices.
  int32_t shards() const { return programs.empty() ? 1 : std::max(1, int32_t(own.size() / programs.size())); }
  /// Ranks times shards; and which program one of these runs.
  size_t places() const { return programs.size() * size_t(shards()); }
  const Program &programOf(size_t place) const { return programs[place / size_t(shards())]; }
  /// The row of one, and what is its own of an operation (by its index); none where there are no shards.
  const Own *ownOf(size_t place) const { return own.empty() ? nullptr : &own[place]; }

  /// What a piece of a rank's job takes, its overhead included; 0: it has none.
  Time pieceTime(const Program &program) const {
    if (program.job < 0)
      return 0;
    const Job &job = jobs[size_t(program.job)];
    return program.piece * job.atom + job.overhead;
  }
  Bytes jobMemory(const Program &program) const { return program.job < 0 ? 0 : jobs[size_t(program.job)].memory; }

  /// Whether a stage is on several ranks.
  bool sharesStages() const { return !stageGroups.empty(); }
  /// Of each stage: how many ranks hold it.
  std::vector<int32_t> widths() const;

  int32_t stagesOfCopy() const { return stages / copies; }
  /// The stage before (after) a stage in its copy of the pipeline; -1: there is none.
  int32_t before(int32_t stage) const { return stage % stagesOfCopy() == 0 ? -1 : stage - 1; }
  int32_t after(int32_t stage) const { return (stage + 1) % stagesOfCopy() == 0 ? -1 : stage + 1; }
  /// The rank that holds the other copies of a rank's stages; -1: there are none, or the rank itself holds them.
  int32_t partnerOf(int32_t rank) const {
    const auto last = int32_t(programs.size()) - 1;
    return copies == 1 || 2 * rank == last ? -1 : last - rank;
  }
  /// A rank's own memory limit; 0: none.
  Bytes limitOf(const Program &program) const { return program.memoryLimit == 0 ? memoryLimit : program.memoryLimit; }
  /// A microbatch's number as people count them: those of a second copy go on from the first's.
  int64_t numberOf(int32_t stage, int64_t microbatch) const {
    return microbatch + int64_t(stage / std::max(1, stagesOfCopy())) * microbatches;
  }
  /// The microbatches of a step as people count them.
  int64_t wholeMicrobatches() const { return int64_t(microbatches) / slices * copies; }
};

/// An operation of a process's program (one of its `operations`), with what the process holds of it.
inline Operation operationOf(const Variant &variant, size_t place, const Operation &operation) {
  Operation made = operation;
  if (const Own *own = variant.ownOf(place)) {
    const OwnCost &its = own->operations[size_t(&operation - variant.programOf(place).operations.data())];
    made.activation = its.activation;
    made.context = its.context;
  }
  return made;
}

/// World rank → its place. World = (rank * degree + replica) * shards + shard.
struct Process {
  int32_t rank = 0;
  int32_t replica = 0;
  int32_t shard = 0;
  bool operator==(const Process &) const = default;
};

/// Who takes part in a collective: world ranks, ascending.
struct Group {
  std::vector<int32_t> members;
  bool operator==(const Group &) const = default;
};

struct Plan {
  uint64_t specHash = 0;
  std::vector<Process> processes;
  std::vector<Group> groups;     // of collectives
  std::vector<uint8_t> provider; // a FlexBuffer for the stage library; empty: none
  std::vector<Variant> variants; // never empty; variant 0 runs first
  bool operator==(const Plan &) const = default;

  int32_t ranks() const { return int32_t(variants.front().programs.size()); }
  /// Shards of each replica of a rank.
  int32_t shards() const { return variants.front().shards(); }
  /// Replicas of each rank.
  int32_t degree() const { return int32_t(processes.size()) / ranks() / shards(); }
  /// How many processes there are.
  int32_t world() const { return int32_t(processes.size()); }
  /// The process of a replica (shard) of a rank, and the reverse.
  int32_t worldOf(int32_t rank, int32_t replica, int32_t shard = 0) const {
    return (rank * degree() + replica) * shards() + shard;
  }
  const Process &placeOf(int32_t world) const { return processes[size_t(world)]; }
};

/// The table of groups that the operations and the stages of some variants ask for, if there are so many replicas of
/// each rank: all those (all shards) of the ranks that have an operation of a group are members of it.
std::vector<Group> groupsOf(const std::vector<Variant> &variants, int32_t degree = 1);

/// What one executed instruction is: the operation, and what the trip adds.
struct Step {
  const Instruction *instruction;
  const Operation *operation;
  int64_t trip;
  int64_t microbatch() const { return instruction->microbatch + instruction->microbatchStride * trip; }
};

/// Walks a program's step in issue order without unrolling it: for (Cursor c(program); !c.done(); c.next())
/// use(c.at());
class Cursor {
public:
  explicit Cursor(const Program &program) : program(&program) { skipEmpty(); }
  bool done() const { return segment == program->step.size(); }
  Step at() const {
    const Instruction &i = program->instructions[program->step[segment].first + index];
    return {&i, &program->operations[i.operation], trip};
  }
  void next() {
    const Segment &s = program->step[segment];
    if (++index < s.count)
      return;
    index = 0;
    if (++trip < s.trips)
      return;
    trip = 0;
    ++segment;
    skipEmpty();
  }

private:
  void skipEmpty() {
    while (segment < program->step.size() && (program->step[segment].count == 0 || program->step[segment].trips == 0))
      ++segment;
  }
  const Program *program;
  size_t segment = 0;
  uint32_t index = 0;
  uint32_t trip = 0;
};

/// Whether two variants of as many ranks have the same jobs, on the same ranks: a swap then leaves them running.
bool runSameJobs(const Variant &one, const Variant &other);

/// How many instructions the program executes in a step.
int64_t executed(const Program &program);
/// The stages that have an operation for a work; ascending.
std::vector<int32_t> stagesDoing(const Variant &variant, Work work);

} // namespace pipec::plan
