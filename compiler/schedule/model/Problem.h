// A scheduling problem, without any IR: ranks, stages, costs, links, memory. A solution is a word for each rank.
// Solvers return words; `verify` judges the words and shares no code with any solver. Times are picoseconds, sizes
// bytes; both stay within runtime/plan/Limits.h.
#pragma once

#include "runtime/plan/Kinds.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace pipec::schedule {

using Time = int64_t;
using Bytes = int64_t;

enum class BackwardMode : uint8_t { Fused, Split };

/// One directed pair of ranks. Bandwidth in bytes per second; 0: unlimited.
struct Link {
  Time latency = 0;
  int64_t bandwidth = 0;
  bool operator==(const Link &) const = default;
};

/// Costs and sizes of one stage and one microbatch.
struct Stage {
  Time forward = 0;
  Time backwardInput = 0;    // split
  Time backwardWeight = 0;   // split
  Time backward = 0;         // of BW, whether backwards are fused or split
  Time optimizer = 0;        // once a step
  Bytes boundary = 0;        // what F sends to the next stage
  Bytes activation = 0;      // held from the start of F to the end of B
  Bytes context = 0;         // held from the start of F to the end of W (fused: of the backward)
  Bytes backwardContext = 0; // held from the start of B to the end of W
  /// Only of a recomputed stage: bytes held from the start of F to the start of R. Activation and context, which
  /// include the input, are held from then on. An R runs right before its backward, and words do not name the R.
  std::optional<Bytes> input = std::nullopt;
  /// The time of R. The times of backwards include R. R is the part that needs no gradient.
  Time recompute = 0;
  Bytes gradients = 0; // of its weights; two copies of a stage sum this many bytes
  /// The time of its forward and a whole backward of its rank, run together; absent: they never run together.
  std::optional<Time> overlapped = std::nullopt;
  /// Bytes of the gradient that comes back for what F sends; absent: as many as `boundary`.
  std::optional<Bytes> boundaryGradient = std::nullopt;
  Bytes gradientBack() const { return boundaryGradient.value_or(boundary); }
  /// Stores a size equal to `boundary` as absent, so that equal stages compare equal.
  void setGradientBack(Bytes bytes) { boundaryGradient = bytes == boundary ? std::nullopt : std::optional(bytes); }
  bool operator==(const Stage &) const = default;
};

/// Makes a stage recomputed. Its backward times must not include an R yet.
inline void recompute(Stage &stage, Bytes input, Time takes) {
  stage.input = input;
  stage.recompute = takes;
  stage.backwardInput += takes;
  stage.backward += takes;
}

/// A time of a stage, and how often every order of a step spends the time.
struct StageTime {
  const char *name;
  Time (*of)(const Stage &);         // 0 if absent
  bool fused = false, split = false; // once for each microbatch if backwards are fused, or split
  bool onceAStep = false;
};
inline constexpr StageTime kStageTimes[] = {
    {.name = "forward", .of = [](const Stage &stage) { return stage.forward; }, .fused = true, .split = true},
    {.name = "backward input", .of = [](const Stage &stage) { return stage.backwardInput; }, .split = true},
    {.name = "backward weight", .of = [](const Stage &stage) { return stage.backwardWeight; }, .split = true},
    {.name = "backward", .of = [](const Stage &stage) { return stage.backward; }, .fused = true},
    {.name = "recompute", .of = [](const Stage &stage) { return stage.recompute; }},
    {.name = "optimizer", .of = [](const Stage &stage) { return stage.optimizer; }, .onceAStep = true},
    {.name = "overlapped pair", .of = [](const Stage &stage) { return stage.overlapped.value_or(0); }},
};

/// A weight that several layers hold. The ranks that have any of its stages sum its gradients, once a step.
struct SharedWeight {
  std::vector<int32_t> layers; // indices in the model; two or more, ascending
  std::vector<int32_t> stages; // stages that have these layers; one or more, ascending
  Bytes gradients = 0;         // bytes that each rank adds to the sum
  bool operator==(const SharedWeight &) const = default;
};

struct Problem {
  int32_t ranks = 1;
  int32_t microbatches = 1; // of one copy; a slice of a sequence counts as a microbatch
  BackwardMode backward = BackwardMode::Fused;
  bool mixed = false; // split backwards may also run whole (BW), where that takes less time
  bool cuts = false;  // passes may be cut into layers, with any times
  /// Pipelines side by side on the same ranks (bidirectional schedules), each with its own microbatches. `stages` holds
  /// the stages of the first copy, then those of the second.
  int32_t copies = 1;
  /// The number of slices of each sequence. A slice counts as a microbatch; the slices of a sequence follow each other.
  /// F of a slice needs F of the slice before it on the same stage (for keys and values). The backward of a slice needs
  /// the backward of the slice after it (for the gradients of keys and values).
  int32_t slices = 1;
  /// Backwards run in groups of this many microbatches, the last of each group first; 1: in order. A multiple of
  /// `slices`.
  int32_t backwardGroup = 1;
  std::vector<Stage> stages;
  std::vector<int32_t> rankOf;                       // stage → rank
  Link link;                                         // default of every directed pair
  std::map<std::pair<int32_t, int32_t>, Link> links; // (from, to) → exception
  std::vector<Bytes> staticBytes;                    // by rank; empty: 0
  std::vector<Bytes> workspace;                      // by rank; empty: 0
  Bytes memoryLimit = 0;                             // limit of the rank that may hold most; 0: none
  /// By rank: bytes that the rank may hold less than memoryLimit; empty: 0. `heldAlways` counts these bytes as held, so
  /// all other code sees one limit for all ranks.
  std::vector<Bytes> withheld = {};
  // Time of the all-reduce of a gradient norm; absent: there is no norm. The all-reduce starts when all ranks have done
  // their last backward, and all optimizers wait for the result.
  std::optional<Time> globalNorm;
  /// In the order of their sums: weights with the last first layer come first, since the last backward of that layer is
  /// the earliest.
  std::vector<SharedWeight> shared = {};

  /// The stage before (after) a stage in its copy of the pipeline; -1: there is none.
  int32_t before(int32_t stage) const { return stage % stagesOfCopy() == 0 ? -1 : stage - 1; }
  int32_t after(int32_t stage) const { return (stage + 1) % stagesOfCopy() == 0 ? -1 : stage + 1; }
  int32_t stagesOfCopy() const { return static_cast<int32_t>(stages.size()) / copies; }
  /// The microbatch of a stage's n-th backward, from 0.
  int32_t backwardOf(int32_t n) const {
    const int32_t first = n / backwardGroup * backwardGroup;
    return first + std::min(first + backwardGroup, microbatches) - 1 - n;
  }
  /// Time that the stage before waits for a backward: of B or, fused, of BW. weightTime is what W takes in addition.
  Time backwardTime(const Stage &stage) const {
    return backward == BackwardMode::Fused ? stage.backward : stage.backwardInput;
  }
  Time weightTime(const Stage &stage) const { return backward == BackwardMode::Fused ? 0 : stage.backwardWeight; }
  bool recomputes() const {
    return std::any_of(stages.begin(), stages.end(), [](const Stage &stage) { return stage.input.has_value(); });
  }
  bool hasBackwardContexts() const {
    return backward == BackwardMode::Split &&
           std::any_of(stages.begin(), stages.end(), [](const Stage &stage) { return stage.backwardContext > 0; });
  }
  /// The least time that a backward, split or whole, keeps the stage before waiting, and the least time that its
  /// weights take in addition.
  Time leastBackwardTime(const Stage &stage) const { return std::min(backwardTime(stage), stage.backward); }
  Time leastWeightTime(const Stage &stage) const {
    return std::min(backwardTime(stage) + weightTime(stage), stage.backward) - leastBackwardTime(stage);
  }
  /// The rank that holds the other copies of a rank's stages; -1: there are none, or the rank itself holds them.
  int32_t partnerOf(int32_t rank) const;

  /// Gives each rank its own memory limit, of one byte or more.
  void limitRanks(const std::vector<Bytes> &limits);
  /// A rank's own memory limit; 0: none.
  Bytes limitOf(int32_t rank) const {
    return memoryLimit == 0 || withheld.empty() ? memoryLimit : memoryLimit - withheld[size_t(rank)];
  }

  const Link &linkBetween(int32_t from, int32_t to) const;
  /// The pairs (from, to) of ranks between which activations, gradients or collectives go.
  std::set<std::pair<int32_t, int32_t>> linksUsed() const;
  /// Stages of every rank, ascending.
  std::vector<std::vector<int32_t>> stagesByRank() const;
  /// What a stage hands to a neighbour: its boundary (to = from + 1), or the gradient of the boundary that it received
  /// (to = from - 1).
  Bytes bytesBetween(int32_t from, int32_t to) const {
    return from < to ? stages[size_t(from)].boundary : stages[size_t(to)].gradientBack();
  }
  /// From the end of a pass of stage `from` to the earliest start of the pass of its neighbour `to` that takes the
  /// result: time on the wire plus latency; 0 on one rank.
  Time handOver(int32_t from, int32_t to) const;
};

/// bytes / bandwidth in picoseconds, rounded once, half up, in 128 bits; 0 where the bandwidth is unlimited. A result
/// that Time does not hold becomes the largest Time, which `check` refuses.
Time wireTime(Bytes bytes, int64_t bandwidth);

/// The time of the all-reduce of a gradient norm: 8 bytes over the n ranks as a ring, 2 (n - 1) hops of the ring's
/// slowest link.
Time globalNormTime(const Problem &problem);

/// The time in which a rank and its partner sum the gradients of the stages that both hold copies of. Each sends all of
/// its gradients to the other, both at once. The sum starts when both have done their last backward, and their
/// optimizers wait for the sum. 0 without a partner.
Time copySumTime(const Problem &problem, int32_t rank);
/// The bytes that each of the two sends.
Bytes copySumBytes(const Problem &problem, int32_t rank);

/// The ranks that hold a shared weight, ascending. If there are several, they sum the weight's gradients. Each rank
/// starts the sum after the last backward (W) of its stages that hold the weight, and after the sums of the weights
/// before this weight in Problem::shared. The optimizer steps of these stages wait for the sum; so does a gradient
/// norm.
std::vector<int32_t> ranksOf(const Problem &problem, const SharedWeight &weight);
/// How long the sum takes, in picoseconds. The n processes of the ring are the ranks in ascending order, each rank with
/// its `replicas`, whose links are `between`. The sum takes 2 (n - 1) hops; a hop carries 1/n of the bytes over the
/// slowest link of the ring. 0 on one rank; at most the largest Time.
Time sharedSumTime(const Problem &problem, const SharedWeight &weight, int32_t replicas = 1, const Link &between = {});
/// The stages of a rank, `held`, in the order of their optimizer steps: first those that wait for no sum, then the
/// others in the order of their sums.
std::vector<int32_t> updateOrder(const Problem &problem, std::vector<int32_t> held);

/// Stage → rank, for two copies of the stages: the first copy in a loop, the second from the last rank to the first.
std::vector<int32_t> placedBothWays(int32_t ranks, int32_t stagesOfCopy);

/// Stage → rank: in a loop (s mod p), or there and back over the ranks, as often as there are chunks.
std::vector<int32_t> placed(int32_t ranks, int32_t stages, bool thereAndBack);

/// The kind of a pass in a word. Passes of one stage and kind run in a known order of microbatches, so a word does not
/// name microbatches. Letters are dense, since arrays are indexed by letter. R is in no word: R runs right before its
/// backward.
enum class Letter : uint8_t { F = 0, B = 1, W = 2, BW = 3, R = 4 };
inline constexpr size_t kLetters = 5;
inline constexpr size_t kWordLetters = 4; // letters below this number occur in words

namespace detail {
inline constexpr std::array<plan::Kind, kLetters> kKindOf = {plan::Kind::Forward, plan::Kind::BackwardInput,
                                                             plan::Kind::BackwardWeight, plan::Kind::Backward,
                                                             plan::Kind::Recompute};
/// The properties of a letter, derived from its row in the table of kinds.
struct LetterRow {
  uint8_t counter = 0;
  int8_t activation = 0, context = 0, backwardContext = 0, input = 0; // 1: held from its start, -1: freed
  bool handsOver = false;                                             // whether the letter frees the input at its start
};
inline constexpr std::array<LetterRow, kLetters> kLetterTable = [] {
  std::array<LetterRow, kLetters> rows{};
  for (size_t i = 0; i < kLetters; ++i) {
    const plan::KindRow &row = plan::rowOf(kKindOf[i]);
    rows[i].counter = uint8_t(plan::counterOf(row.kind));
    rows[i].activation = int8_t((row.holds & plan::kActivation) != 0) - int8_t((row.frees & plan::kActivation) != 0);
    rows[i].context = int8_t((row.holds & plan::kContext) != 0) - int8_t((row.frees & plan::kContext) != 0);
    rows[i].backwardContext =
        int8_t((row.holds & plan::kBackwardContext) != 0) - int8_t((row.frees & plan::kBackwardContext) != 0);
    rows[i].input = int8_t((row.holds & plan::kInput) != 0) - int8_t((row.frees & plan::kInput) != 0);
    rows[i].handsOver = (row.frees & plan::kHandedOver & plan::kInput) != 0;
  }
  return rows;
}();
} // namespace detail

constexpr plan::Kind kindOf(Letter letter) { return detail::kKindOf[size_t(letter)]; }
/// The letter of a pass.
constexpr Letter letterOf(plan::Kind pass) {
  size_t letter = 0;
  while (detail::kKindOf[letter] != pass)
    ++letter;
  return Letter(letter);
}
/// The counter that numbers a letter among those of its stage: 0: F; 1: the backwards, B and BW; 2: W.
constexpr size_t counterOf(Letter letter) { return detail::kLetterTable[size_t(letter)].counter; }

/// One letter of a word: a pass. An `overlapped` F runs together with the backward that follows in the word: both start
/// when both can start, and both end together.
struct Op {
  int32_t stage = 0;
  Letter letter = Letter::F;
  bool overlapped = false;
  bool operator==(const Op &) const = default;
};

/// The time of a letter of a stage; that of a backward includes its R.
inline Time costOf(const Stage &stage, Letter letter) {
  return letter == Letter::F   ? stage.forward
         : letter == Letter::B ? stage.backwardInput
         : letter == Letter::W ? stage.backwardWeight
         : letter == Letter::R ? stage.recompute
                               : stage.backward;
}
/// The time of a letter without R.
inline Time ownCost(const Stage &stage, Letter letter) {
  return costOf(stage, letter) - (letter == Letter::B || letter == Letter::BW ? stage.recompute : 0);
}
/// The time of an overlapped F together with the backward that follows.
inline Time pairCost(const Problem &problem, const Op &forward, const Op &backward) {
  const Stage &stage = problem.stages[size_t(forward.stage)];
  return stage.overlapped.value_or(stage.forward + ownCost(problem.stages[size_t(backward.stage)], backward.letter));
}
/// The change of a rank's live bytes by a letter, without its R: the bytes taken at the start less those freed at the
/// end. 128 bits, since sizes within the limits times the microbatches may exceed 2^63.
inline __int128 changeOf(const Stage &stage, Letter letter) {
  const detail::LetterRow row = detail::kLetterTable[size_t(letter)];
  if (letter == Letter::F && stage.input)
    return *stage.input;
  return __int128(row.activation * stage.activation) + row.context * stage.context +
         row.backwardContext * stage.backwardContext + row.input * stage.input.value_or(0);
}
/// The bytes that a letter takes at its start.
inline __int128 takenBy(const Stage &stage, Letter letter) {
  const detail::LetterRow row = detail::kLetterTable[size_t(letter)];
  if (letter == Letter::F && stage.input)
    return *stage.input;
  return __int128(row.activation > 0 ? stage.activation : 0) + (row.context > 0 ? stage.context : 0) +
         (row.backwardContext > 0 ? stage.backwardContext : 0) - (row.handsOver ? stage.input.value_or(0) : 0);
}

/// One rank's compute order; the optimizer follows it.
using Word = std::vector<Op>;
/// words[r] is the word of rank r.
using Words = std::vector<Word>;

/// The stage of the R that runs right before a letter of a word; -1: none. R runs before its backward or, if the
/// backward overlaps a forward, before the pair.
inline int32_t recomputedBefore(const Problem &problem, const Word &word, size_t at) {
  if (at != 0 && word[at - 1].overlapped)
    return -1;
  const Op &backward = word[at].overlapped ? word[at + 1] : word[at];
  const bool needsIt = backward.letter == Letter::B || backward.letter == Letter::BW;
  return needsIt && problem.stages[size_t(backward.stage)].input ? backward.stage : -1;
}

/// A problem in which no stage keeps an input, and all orders that fit are orders of this problem that fit, as in
/// withoutBackwardContexts(). F holds the input until B ends, and B holds the context until W ends. Room is reserved
/// for the largest difference between an activation and its input. R still needs no gradient.
Problem withoutInputs(const Problem &problem);

/// The same problem with no stage recomputed.
Problem withoutRecompute(const Problem &problem);

/// A problem without backward contexts, with orders that all fit into this problem's memory too. A B that makes a
/// context counts as a B that frees less of its activation. If a B makes more than it frees, its F holds the rest. Room
/// is reserved for the largest backward context, since B holds both for a while.
Problem withoutBackwardContexts(const Problem &problem);

/// Words that run each microbatch completely before the next starts: no order holds less, and none is longer.
Words oneAtATime(const Problem &problem);

/// Checks a problem: sizes of vectors, ranges, a stage on each rank, times and counts within Limits.h. Returns an empty
/// string if the problem is right, else what is wrong.
std::string check(const Problem &problem);
/// The two parts of `check`: everything except times; and times, which needs checkShape to have passed.
std::string checkShape(const Problem &problem);
std::string checkTimes(const Problem &problem);
/// Whether a step stays within limits::kTime in every order: whether all work and all transfers, one after the other,
/// do. Needs check(problem) to have passed.
bool isNeverTooLong(const Problem &problem);
/// Checks a solution. There is a word for each rank. The word has F and a backward of each of the rank's stages
/// `microbatches` times; a backward is BW or, if backwards are split, B and W. No prefix of a word has more backwards
/// than F, or more W than B. An overlapped F is followed by a BW of another microbatch or stage. The ranks do not
/// deadlock. Returns an empty string if the words are right, else what is wrong. Needs check(problem) to have passed.
/// O(letters).
std::string verify(const Problem &problem, const Words &words);

} // namespace pipec::schedule
