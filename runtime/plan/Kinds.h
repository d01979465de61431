// The table of kinds of instructions. All that the parts of pipec need to know of a kind stands once, in the kind's
// row. Ops, letters, the plan's rules, the simulator, pictures, order files and the calls of a stage ask the table. So
// a new kind is a new row, and no code depends on the order of rows or enumerators. The file uses the standard library
// alone, so that anything may include it.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace pipec::plan {

/// What an instruction does. These values stand in plan files, so they never change; new kinds go to the end.
enum class Kind : uint8_t {
  Forward = 0,        // F
  BackwardInput = 1,  // B of a split backward
  BackwardWeight = 2, // W
  Backward = 3,       // B and W fused
  Send = 4,
  Recv = 5,
  Optimizer = 6,
  AllReduce = 7,
  ReduceScatter = 8,
  AllGather = 9,
  Recompute = 10,
  Offload = 11,
  Load = 12,
  Overlapped = 13, // the header of a pair: the F and the backward behind it run together and take its time
  Reshard = 14,    // samples change ranks between two stages of which one is on more than the other
};
inline constexpr int kKinds = 15; // the number of kinds; every value is below it

/// What sort of work a kind is.
enum class Class : uint8_t {
  Compute,       // a pass of a stage over a microbatch
  Weights,       // a pass for which only the stage's update waits
  Updates,       // the update of a stage's weights, once a step
  Communication, // one end of a transfer between two ranks
  Collective,    // a rank's part in what several ranks do together
  Header,        // no work of its own: says how long the two passes behind it take together
  Reserved,      // only its value and its name are settled
};

/// What a pass or an update achieves. A stage needs each of these once for each microbatch (the update once a step),
/// whichever kind does it. So these are what is counted, and what must not be done twice. Values add up to sets.
enum Work : uint8_t {
  kNoWork = 0,
  kForwardPass = 1,
  kInputGradient = 2,
  kWeightGradient = 4,
  kUpdate = 8,
  kRecomputation = 16, // the forward again, where it kept only its input
};
inline constexpr size_t kWorks = 5;

/// How often each stage does a work in a step.
struct WorkRow {
  Work work;
  const char *name;           // of it alone, in messages
  const char *all;            // of all kinds that do it
  uint8_t together = kNoWork; // Work: a plan has all of these or none; kNoWork: every plan has this one
  bool onceAStep = false;     // rather than once for each microbatch
  bool bySomeStages = false;  // others have none of it
};

// A plan without any backward is one for evaluation.
inline constexpr std::array<WorkRow, kWorks> kWorkTable = {{
    {.work = kForwardPass, .name = "F", .all = "F"},
    {.work = kInputGradient, .name = "B", .all = "B and BW", .together = kInputGradient | kWeightGradient},
    {.work = kWeightGradient, .name = "W", .all = "W and BW", .together = kInputGradient | kWeightGradient},
    {.work = kUpdate, .name = "optimizer", .all = "optimizer steps", .together = kUpdate, .onceAStep = true},
    {.work = kRecomputation, .name = "R", .all = "R", .together = kRecomputation, .bySomeStages = true},
}};

/// What a pass keeps for later passes of its stage and microbatch: an activation until the input gradient is done; a
/// context, and what the input gradient adds to it, until the weight gradient is; in place of activation and context an
/// input, until the recomputation begins, which makes those two. Values add up to sets.
enum Memory : uint8_t { kNoMemory = 0, kActivation = 1, kContext = 2, kBackwardContext = 4, kInput = 8 };
/// Those whose bytes an operation gives as its context: what F or B takes, or what W or BW gives back of both.
inline constexpr uint8_t kContexts = kContext | kBackwardContext;
/// What becomes part of that which the pass that frees it holds, so that it is given back when that pass starts: the
/// input is in the activation that R makes of it, as it is in that of any F.
inline constexpr uint8_t kHandedOver = kInput;

/// What a pass or a transfer hands on from stage to stage, and what a collective carries.
enum class Payload : uint8_t {
  None = 0,
  Forward = 1,   // an activation
  Backward = 2,  // the gradient of an activation
  Norm = 3,      // a number: the square of the norm of all gradients
  Gradients = 4, // of weights
  Weights = 5,   // of layers whose updates are sharded
  Shared = 6,    // gradients of a weight that layers of several ranks have in common
};
/// "F", "B", "norm", "gradients", "weights", "shared"; "?" for None and for unknown values.
constexpr const char *name(Payload of) {
  switch (of) {
  case Payload::Forward:
    return "F";
  case Payload::Backward:
    return "B";
  case Payload::Norm:
    return "norm";
  case Payload::Gradients:
    return "gradients";
  case Payload::Weights:
    return "weights";
  case Payload::Shared:
    return "shared";
  case Payload::None:
    break;
  }
  return "?";
}

/// What communication does with its payload. Values add up to sets: an all-reduce sums and gathers.
enum Carries : uint8_t { kNothing = 0, kSends = 1, kReceives = 2, kSums = 4, kGathers = 8, kMovesSamples = 16 };

/// On which queues an instruction may stand. Values add up to sets.
enum QueueClass : uint8_t { kComputeQueue = 1, kWeightsQueue = 2, kCommunicator = 4, kUpdatesQueue = 8 };

/// How a kind of work looks in a picture, be it SVG, HTML or a terminal. The colours are Okabe and Ito's (Color
/// Universal Design, 2008), which people with any kind of colour vision tell apart; PaletteTest holds them to that.
struct Look {
  std::string_view letter; // "F"
  std::string_view name;   // "forward"
  std::string_view css;    // class in a style sheet: "forward"
  uint32_t fill;           // 0xRRGGBB
  /// Of xterm's 256 colours: the backgrounds of even and of odd microbatches, so that neighbours stand apart, and the
  /// colour of the text on them.
  std::array<int, 2> terminal;
  int terminalInk;
};

/// All looks, in the order of legends. Kinds that a reader need not tell apart share one.
inline constexpr std::array<Look, 8> kLooks = {{
    {"F", "forward", "forward", 0x0072B2, {25, 32}, 231},
    {"R", "recompute", "recompute", 0xD55E00, {166, 202}, 16},
    {"B", "backward", "backward", 0xE69F00, {214, 222}, 16},
    {"W", "weight backward", "weight", 0x009E73, {36, 79}, 16},
    {"X", "forward and backward overlapped", "overlapped", 0xCC79A7, {175, 182}, 16},
    {"O", "optimizer", "optimizer", 0x666666, {241, 241}, 231},
    {"T", "transfer", "transfer", 0x56B4E9, {74, 117}, 16},
    {"A", "collective", "collective", 0xF0E442, {227, 228}, 16},
}};

struct KindRow {
  Kind kind;
  const char *name; // in traces, disassembly, orders and messages
  Class sort;
  bool ordered = false;           // words and orders name it
  bool supported = true;          // false: the loader refuses it (rule P6)
  uint8_t does = kNoWork;         // a set of Work
  Work after = kNoWork;           // the work of its stage and microbatch behind which it comes
  uint8_t holds = kNoMemory;      // a set of Memory, taken at its start
  uint8_t frees = kNoMemory;      // a set of Memory, given back at its end; of kHandedOver at its start
  Payload gives = Payload::None;  // what a pass hands on; it takes the same from the neighbour on the other side
  uint8_t carries = kNothing;     // a set of Carries
  uint8_t queues = kComputeQueue; // a set of QueueClass
  uint8_t since = 0;              // the minor version of the format that it came with
  char letter = 'O';              // Look::letter of its look
  const char *torch = "";         // in PyTorch's order files, for a transfer before _F or _B; "": not in them
  const char *call = ""; // the function of a stage library that runs it (runtime/stage/pipec_stage.h); "": none
};

// clang-format off
inline constexpr std::array<KindRow, kKinds> kKindTable = {{
    {.kind = Kind::Forward, .name = "F", .sort = Class::Compute, .ordered = true, .does = kForwardPass,
     .holds = kActivation | kContext | kInput, .gives = Payload::Forward, .letter = 'F', .torch = "F",
     .call = "pipec_stage_forward"},
    {.kind = Kind::BackwardInput, .name = "B", .sort = Class::Compute, .ordered = true, .does = kInputGradient,
     .after = kForwardPass, .holds = kBackwardContext, .frees = kActivation, .gives = Payload::Backward, .letter = 'B',
     .torch = "I", .call = "pipec_stage_backward_input"},
    {.kind = Kind::BackwardWeight, .name = "W", .sort = Class::Weights, .ordered = true, .does = kWeightGradient,
     .after = kInputGradient, .frees = kContext | kBackwardContext, .queues = kComputeQueue | kWeightsQueue, .letter = 'W',
     .torch = "W", .call = "pipec_stage_backward_weight"},
    {.kind = Kind::Backward, .name = "BW", .sort = Class::Compute, .ordered = true,
     .does = kInputGradient | kWeightGradient, .after = kForwardPass, .frees = kActivation | kContext,
     .gives = Payload::Backward, .letter = 'B', .torch = "B", .call = "pipec_stage_backward"},
    {.kind = Kind::Send, .name = "send", .sort = Class::Communication, .carries = kSends,
     .queues = kCommunicator, .letter = 'T', .torch = "SEND"},
    {.kind = Kind::Recv, .name = "recv", .sort = Class::Communication, .carries = kReceives,
     .queues = kCommunicator, .letter = 'T', .torch = "RECV"},
    {.kind = Kind::Optimizer, .name = "optimizer", .sort = Class::Updates, .does = kUpdate,
     .queues = kComputeQueue | kUpdatesQueue, .letter = 'O', .call = "pipec_stage_optimizer_step"},
    {.kind = Kind::AllReduce, .name = "all_reduce", .sort = Class::Collective, .carries = kSums | kGathers,
     .queues = kCommunicator, .letter = 'A'},
    {.kind = Kind::ReduceScatter, .name = "reduce_scatter", .sort = Class::Collective, .carries = kSums,
     .queues = kCommunicator, .since = 6, .letter = 'A'},
    {.kind = Kind::AllGather, .name = "all_gather", .sort = Class::Collective, .carries = kGathers,
     .queues = kCommunicator, .since = 6, .letter = 'A'},
    {.kind = Kind::Recompute, .name = "R", .sort = Class::Compute, .does = kRecomputation, .after = kForwardPass,
     .holds = kActivation | kContext, .frees = kInput, .since = 4, .letter = 'R'},
    {.kind = Kind::Offload, .name = "offload", .sort = Class::Reserved, .supported = false},
    {.kind = Kind::Load, .name = "load", .sort = Class::Reserved, .supported = false},
    {.kind = Kind::Overlapped, .name = "overlapped", .sort = Class::Header, .since = 2, .letter = 'X'},
    {.kind = Kind::Reshard, .name = "reshard", .sort = Class::Collective, .carries = kMovesSamples,
     .queues = kCommunicator, .since = 9, .letter = 'A'},
}};
// clang-format on

namespace detail {

/// The row of values that are no kind, as a damaged file may have them.
inline constexpr KindRow kUnknownKind = {
    .kind = Kind(UINT8_MAX), .name = "unknown", .sort = Class::Reserved, .supported = false, .queues = 0};

/// A kind's value → its row.
inline constexpr std::array<const KindRow *, UINT8_MAX + 1> kRowOf = [] {
  std::array<const KindRow *, UINT8_MAX + 1> rows{};
  rows.fill(&kUnknownKind);
  for (const KindRow &row : kKindTable)
    rows[size_t(row.kind)] = &row;
  return rows;
}();

/// A kind's value → its class, for loops over many instructions.
inline constexpr std::array<Class, UINT8_MAX + 1> kClassOf = [] {
  std::array<Class, UINT8_MAX + 1> classes{};
  for (size_t value = 0; value < classes.size(); ++value)
    classes[value] = kRowOf[value]->sort;
  return classes;
}();

/// A kind's value → what it carries, for the same loops.
inline constexpr std::array<uint8_t, UINT8_MAX + 1> kCarriesOf = [] {
  std::array<uint8_t, UINT8_MAX + 1> carries{};
  for (size_t value = 0; value < carries.size(); ++value)
    carries[value] = kRowOf[value]->carries;
  return carries;
}();

} // namespace detail

/// A kind's row; for a value that is no kind, a row of the name "unknown".
constexpr const KindRow &rowOf(Kind kind) { return *detail::kRowOf[size_t(kind)]; }
constexpr Class classOf(Kind kind) { return detail::kClassOf[size_t(kind)]; }
constexpr bool isKnown(Kind kind) { return &rowOf(kind) != &detail::kUnknownKind; }

/// "F", "B", "W", "optimizer"
constexpr const char *name(Work work) {
  for (const WorkRow &row : kWorkTable)
    if (row.work == work)
      return row.name;
  return "?";
}
/// The name in traces, disassembly and messages: "F", "B", "W", "BW", "send", "recv", "optimizer", …
constexpr const char *name(Kind kind) { return rowOf(kind).name; }

/// Whether it is a pass: the work of a stage on a microbatch.
constexpr bool isCompute(Kind kind) { return classOf(kind) == Class::Compute || classOf(kind) == Class::Weights; }
/// A pass that words and orders name; any other stands behind the one that it belongs to.
constexpr bool isOrdered(Kind kind) { return rowOf(kind).ordered; }
constexpr bool isTransfer(Kind kind) { return classOf(kind) == Class::Communication; }
constexpr bool isCollective(Kind kind) { return classOf(kind) == Class::Collective; }
/// Whether it runs on a communicator.
constexpr bool isCommunication(Kind kind) { return isTransfer(kind) || isCollective(kind); }
constexpr bool sends(Kind kind) { return (detail::kCarriesOf[size_t(kind)] & kSends) != 0; }
constexpr bool receives(Kind kind) { return (detail::kCarriesOf[size_t(kind)] & kReceives) != 0; }
/// A collective that sums what the ranks of its group have.
constexpr bool sums(Kind kind) { return (detail::kCarriesOf[size_t(kind)] & kSums) != 0; }
/// A collective after which every rank of its group has all of the payload.
constexpr bool gathers(Kind kind) { return (detail::kCarriesOf[size_t(kind)] & kGathers) != 0; }
/// A collective that moves samples from the ranks of one stage to those of the next.
constexpr bool movesSamples(Kind kind) { return (detail::kCarriesOf[size_t(kind)] & kMovesSamples) != 0; }
/// Stands before two passes that run together, and says how long they take.
constexpr bool isHeader(Kind kind) { return classOf(kind) == Class::Header; }
/// Whether a stage library runs it or is told of it.
constexpr bool isOfStage(Kind kind) {
  return isCompute(kind) || classOf(kind) == Class::Updates || classOf(kind) == Class::Header;
}
/// Whether it takes time on a rank's device.
constexpr bool isBusy(Kind kind) { return isCompute(kind) || classOf(kind) == Class::Updates; }

/// The memory that a pass takes, as a set: F takes either an input or, where its stage is not recomputed, all else.
constexpr unsigned takes(Kind kind, bool recomputed) {
  const unsigned holds = rowOf(kind).holds, input = kInput;
  return (holds & input) == 0 ? holds : recomputed ? input : holds & ~input;
}
constexpr bool does(Kind kind, Work work) { return (rowOf(kind).does & work) != 0; }
/// The counter by which passes of this kind are numbered in their stage. 0: forwards, 1: backwards (B and BW), 2: W, 3:
/// updates, 4: R.
constexpr size_t counterOf(Kind kind) { return size_t(std::countr_zero(unsigned(rowOf(kind).does))); }

/// A kind's look, as an index into kLooks.
constexpr size_t lookIndex(Kind kind) {
  size_t look = 0;
  while (kLooks[look].letter.front() != rowOf(kind).letter)
    ++look;
  return look;
}
constexpr const Look &lookOf(Kind kind) { return kLooks[lookIndex(kind)]; }

struct KindList {
  std::array<Kind, kKinds> list{};
  size_t count = 0;
  constexpr const Kind *begin() const { return list.data(); }
  constexpr const Kind *end() const { return list.data() + count; }
};
/// The kinds of the table that `wanted` says yes to.
template <typename Wanted> constexpr KindList kindsThat(Wanted wanted) {
  KindList kinds;
  for (const KindRow &row : kKindTable)
    if (wanted(row))
      kinds.list[kinds.count++] = row.kind;
  return kinds;
}

/// The kinds of passes.
inline constexpr KindList kPasses = kindsThat([](const KindRow &row) { return isCompute(row.kind); });

namespace detail {
/// By the work's number.
inline constexpr std::array<KindList, kWorks> kKindsDoing = [] {
  std::array<KindList, kWorks> kinds{};
  for (size_t i = 0; i < kWorks; ++i)
    kinds[i] = kindsThat([i](const KindRow &row) { return (row.does >> i & 1) != 0; });
  return kinds;
}();
} // namespace detail

/// The kinds that do some work: of the gradient of the input B and BW.
constexpr const KindList &kindsDoing(Work work) {
  return detail::kKindsDoing[size_t(std::countr_zero(unsigned(work)))];
}

} // namespace pipec::plan
