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
  Time cost = 0; // compute: duration (with shards from their first sum to their last; F and backward of a pair: when
                 // alone; header of a pair: of both together); transfer: how long it holds its link (bytes / bandwidth)
  Time latency = 0;     // transfers: from when the link is free to the data's arrival
  Bytes bytes = 0;      // transfers and collectives: the payload; passes: their kInput memory
  Bytes activation = 0; // kActivation memory
  Bytes context = 0;    // kContexts memory
  int32_t group = -1; // index into Plan::groups. Collectives: who takes part; -1: all processes. Others: who takes part
                      // in their sums between shards; -1: they have no sums
  int32_t firstLayer = 0; // of the stage, if the operation is about some layers alone; sum of a shared weight: index
                          // into Variant::shared
  int32_t layers = 0;     // number of layers; 0: all of the stage (collectives: of all stages of the rank)
  Bytes begin = 0;        // collectives of layers: the bytes [begin, end) that they carry of the stage's gradients
  Bytes end = 0;          // (weights), its layers laid end to end; sum of a shared weight: of all of Variant::shared
  bool operator==(const Operation &) const = default;
};

/// Whether an operation is a pass or an update with sums between the shards of its rank.
inline bool meets(const Operation &operation) { return !isCollective(operation.kind) && operation.group != -1; }

/// Whether an operation is a collective of layers: of their gradients or weights, between the replicas of a rank, or of
/// the gradients of a weight that layers of several ranks share.
inline bool isOfLayers(const Operation &operation) { return isCollective(operation.kind) && operation.layers > 0; }
/// Whether an operation sums the gradients of a weight that layers of several ranks share.
inline bool isOfShared(const Operation &operation) {
  return isCollective(operation.kind) && operation.of == Payload::Shared;
}

/// The stage whose gradients (weights) a collective of layers carries; kSharedWeights: it carries those of
/// Variant::shared.
inline constexpr int32_t kSharedWeights = -1;
inline int32_t ownerOf(const Operation &operation) { return isOfShared(operation) ? kSharedWeights : operation.stage; }

/// Whether an operation is one of the collectives that a rank starts in one order, whatever their groups: collectives
/// of layers and reshards, but not norms and sums of copies' gradients.
inline bool isExchange(const Operation &operation) {
  return isOfLayers(operation) || plan::movesSamples(operation.kind);
}

/// The stage that takes what `stage` gives. The pipeline need not have that stage.
constexpr int32_t takerOf(int32_t stage, Payload gives) { return gives == Payload::Backward ? stage - 1 : stage + 1; }
/// The stage that gives what `stage` takes. The pipeline need not have that stage.
constexpr int32_t giverOf(int32_t stage, Payload takes) { return takes == Payload::Backward ? stage + 1 : stage - 1; }

/// Priority of a device queue. Plan files contain the values. If two queues could start, urgencyOf() decides.
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
/// The class of a queue, which decides what instructions may be on it (KindRow::queues).
inline QueueClass classOf(const Queue &queue) {
  return queue.kind == QueueKind::Communicator ? kCommunicator
         : queue.priority == Priority::Compute ? kComputeQueue
         : queue.priority == Priority::Updates ? kUpdatesQueue
                                               : kWeightsQueue;
}

/// The bytes of an operation in a set of Memory bits.
inline __int128 bytesOf(const Operation &operation, unsigned memory) {
  return __int128((memory & kActivation) != 0 ? operation.activation : 0) +
         ((memory & kContexts) != 0 ? operation.context : 0) + ((memory & kInput) != 0 ? operation.bytes : 0);
}
/// The live bytes that an operation adds when it starts: what its kind holds, less what is handed over to it.
inline __int128 takenBy(const Operation &operation) {
  const KindRow &row = rowOf(operation.kind);
  return bytesOf(operation, row.holds) - bytesOf(operation, row.frees & kHandedOver);
}
/// The live bytes that an operation frees when it ends.
inline __int128 freedBy(const Operation &operation) {
  return bytesOf(operation, rowOf(operation.kind).frees & ~unsigned(kHandedOver));
}

/// A wait is met once `count` instructions of `queue` have completed since the start of this step or, with
/// previousStep, of the step before. In the first step a wait with previousStep is always met. In trip t of the wait's
/// segment, count = base + stride * t.
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

/// Background work of one process, in iterations of `atoms` atoms. A *piece* is some atoms in a row; once begun it runs
/// to its end.
struct Job {
  std::string name;
  int64_t samples = 1, atoms = 1; // per iteration
  Time atom = 0;                  // duration of an atom
  Time overhead = 0;              // duration of a piece besides its atoms
  Bytes memory = 0;               // on each rank that runs it
  std::vector<uint8_t> provider;  // a FlexBuffer for the job's library; empty: none
  bool operator==(const Job &) const = default;
};

/// The time that pieces may fill while an instruction of the compute queue waits. The start of such an instruction is a
/// *resume*.
struct Window {
  uint32_t instruction = 0; // index into Program::instructions; in each of its trips
  Time length = 0;
  Time from = 0; // time from when the device is free until the first piece may begin
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
  Bytes memoryLimit = 0;       // if less than the variant's; 0: the variant's
  int32_t job = -1;            // index into Variant::jobs; -1: none
  int64_t piece = 0;           // size of a piece of the job, in atoms
  std::vector<Window> windows; // ascending
  bool operator==(const Program &) const = default;

  /// Whether the program has a job and no instructions. The job then runs all the time.
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
  Time delay = 0;           // the most by which pieces of jobs lengthen a step, in the mean of many steps
  bool delayProven = false; // whether `delay` holds in any timing; else for the plan's own times alone
  bool operator==(const Certificate &) const = default;
};

/// A replicated layer of a stage.
struct Layer {
  int32_t stage = 0;
  Bytes gradients = 0;  // bytes that the replicas sum
  Bytes weights = 0;    // bytes that a gather moves, if sharded
  bool sharded = false; // each replica updates its share of it
  bool operator==(const Layer &) const = default;
};

/// A weight that several layers hold. Each rank with any of these layers keeps one copy. If there are several ranks,
/// they sum its gradients once per step.
struct SharedWeight {
  std::vector<int32_t> layers; // of the model (in a plan without a cut a stage is one layer); two or more, ascending
  std::vector<int32_t> stages; // that have these layers; one or more, ascending
  Bytes gradients = 0;         // bytes that each rank adds
  bool operator==(const SharedWeight &) const = default;
};

/// The time and memory of an operation on one shard of its rank. An operation with sums takes `before` until its first
/// sum, waits until all shards of the rank have come so far, and then takes Operation::cost and `after`. That cost is
/// the time of the sums and the longest `between` of all shards; it is exact if one shard is the slowest between any
/// two sums. An operation without sums takes `before`, and its cost is 0. All fields of an operation that is neither a
/// pass nor an update are 0.
struct OwnCost {
  Time before = 0;
  Time between = 0; // its own time from its first sum to its last; it waits or sums for the rest of `cost`
  Time after = 0;
  Bytes activation = 0, context = 0; // bytes, in place of Operation's
  Time own() const { return before + between + after; }
  bool operator==(const OwnCost &) const = default;
};

/// The figures of one shard, beside the program that all shards of its rank run.
struct Own {
  int64_t factor = kWhole;              // duration of its own work relative to a healthy device, in millionths
  std::vector<OwnCost> operations;      // as Program::operations
  Bytes staticBytes = 0, workspace = 0; // bytes of this shard; Program has those of the largest shard
  bool operator==(const Own &) const = default;
  static constexpr int64_t kWhole = 1'000'000; // the factor 1
};

/// A range of units of a split.
struct Range {
  int64_t first = 0;
  int64_t count = 0;
  bool operator==(const Range &) const = default;
};

/// The units of a split that a shard has in some layers of a stage, the same units in each layer.
struct Portion {
  int32_t stage = 0;
  int32_t shard = 0;
  int32_t firstLayer = 0; // of the stage
  int32_t layers = 0;
  std::string split;
  int64_t units = 0;         // number of units of the split
  std::vector<Range> owned;  // ascending, disjoint: the shard has their weights and optimizer state
  std::vector<Range> worked; // ascending, disjoint: the shard computes them
  int64_t kept = 0;          // number of worked units that take part in passes; the others are left out
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
  std::string name;         // for people, as `schedule`; may be empty (stripped)
  std::string schedule;     // name of the schedule: "kfkb"
  int32_t stages = 0;       // of all copies
  int32_t microbatches = 0; // of one copy; each slice counts as one
  int32_t copies = 1;       // pipelines side by side, their stages one after the other
  int32_t slices = 1;       // microbatches in a row that are the slices of one sequence
  Bytes memoryLimit = 0;    // of the rank with the highest limit; 0: none
  std::vector<Program> programs;
  Certificate certificate;
  std::vector<int32_t> cut; // layers of each stage of a copy; empty: the spec had none
  LeastTime cutBound;       // lower bound, over all cuts, of the time that was minimized; 0: the cut was not chosen
  /// Whether the variant is proven and timed for a network that starts the sends, receives and all-reduces of a rank in
  /// the order in which they are issued: none before all earlier ones have started (simulate::Launch).
  bool launchOrder = false;
  /// With replicas: the layers of all stages, in order; else empty.
  std::vector<Layer> layers;
  /// Whether collectives with replicas and transfers take turns on the port of their rank. A transfer holds the
  /// sender's outward port and the receiver's inward port, a collective holds both ports. If both could start, the
  /// transfer goes first. Neither is interrupted.
  bool sharedPort = false;
  /// With shards: the figures of each process, at rank * shards + shard; else empty.
  std::vector<Own> own;
  std::vector<Portion> portions; // in the order of stage, layers, split and shard
  std::string balance;           // what chose the portions, as JSON: {"name": "auto"}
  std::vector<Job> jobs;         // the same in all variants
  int64_t slowDown = 0;          // how much longer jobs may make a step, in millionths
  int64_t batch = 0;             // samples of a step, if stages are on several ranks; else 0
  /// If stages are on several ranks, each with its part of the batch (sample i is on member i mod members): by stage,
  /// an index into Plan::groups; the members are the first ranks; -1: rank 0 alone. Else empty.
  std::vector<int32_t> stageGroups;
  /// If stages are on several ranks: by stage, the bytes per sample that the stage passes to the next one and takes
  /// back; 0 for the last stage. Also empty in plans before 1.10.
  std::vector<Bytes> boundaries;
  std::vector<SharedWeight> shared; // in the order in which ranks sum them; the same in all variants
  bool operator==(const Variant &) const = default;

  /// The number of processes that share the matrices of a rank.
  int32_t shards() const { return programs.empty() ? 1 : std::max(1, int32_t(own.size() / programs.size())); }
  /// The number of places, ranks times shards. programOf(): the program of a place.
  size_t places() const { return programs.size() * size_t(shards()); }
  const Program &programOf(size_t place) const { return programs[place / size_t(shards())]; }
  /// The figures of a place; null without shards.
  const Own *ownOf(size_t place) const { return own.empty() ? nullptr : &own[place]; }

  /// Duration of a piece of a rank's job, with its overhead; 0: the rank has no job.
  Time pieceTime(const Program &program) const {
    if (program.job < 0)
      return 0;
    const Job &job = jobs[size_t(program.job)];
    return program.piece * job.atom + job.overhead;
  }
  Bytes jobMemory(const Program &program) const { return program.job < 0 ? 0 : jobs[size_t(program.job)].memory; }

  /// Whether a stage is on several ranks.
  bool sharesStages() const { return !stageGroups.empty(); }
  /// By stage: how many ranks hold it.
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
  /// A microbatch's number for people: those of a second copy go on from those of the first.
  int64_t numberOf(int32_t stage, int64_t microbatch) const {
    return microbatch + int64_t(stage / std::max(1, stagesOfCopy())) * microbatches;
  }
  /// The number of microbatches of a step for people: of all copies, unsliced.
  int64_t wholeMicrobatches() const { return int64_t(microbatches) / slices * copies; }
};

/// An operation of a process's program (one of its `operations`), with the memory that the process holds for it.
inline Operation operationOf(const Variant &variant, size_t place, const Operation &operation) {
  Operation made = operation;
  if (const Own *own = variant.ownOf(place)) {
    const OwnCost &its = own->operations[size_t(&operation - variant.programOf(place).operations.data())];
    made.activation = its.activation;
    made.context = its.context;
  }
  return made;
}

/// The place of a world rank: world = (rank * degree + replica) * shards + shard.
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
  /// The world rank of a replica (shard) of a rank. placeOf() is the reverse.
  int32_t worldOf(int32_t rank, int32_t replica, int32_t shard = 0) const {
    return (rank * degree() + replica) * shards() + shard;
  }
  const Process &placeOf(int32_t world) const { return processes[size_t(world)]; }
};

/// The table of groups that the operations and stages of some variants refer to. `degree`: replicas of each rank. The
/// members of a group are all replicas (all shards) of the ranks that have an operation of the group.
std::vector<Group> groupsOf(const std::vector<Variant> &variants, int32_t degree = 1);

/// An executed instruction: its operation, and what the trip adds.
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

/// Whether two variants of the same number of ranks have the same jobs on the same ranks, so that a swap leaves them
/// running.
bool runSameJobs(const Variant &one, const Variant &other);

/// How many instructions the program executes in a step.
int64_t executed(const Program &program);
/// The stages that have an operation of this kind of work; ascending.
std::vector<int32_t> stagesDoing(const Variant &variant, Work work);

} // namespace pipec::plan
