// What is to be scheduled, apart from any IR: ranks, stages, costs, links, memory; and what a solution is: a word for
// each rank. Solvers return words; `verify` judges them and shares no code with any solver. Times are picoseconds,
// sizes bytes; both stay within runtime/plan/Limits.h.
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
  Time backward = 0;         // fused; where they are split, of one that stands whole in a word
  Time optimizer = 0;        // once a step
  Bytes boundary = 0;        // what F sends on
  Bytes activation = 0;      // held from the start of F to the end of B
  Bytes context = 0;         // held from the start of F to the end of W (fused: of the backward)
  Bytes backwardContext = 0; // held from the start of B to the end of W
  /// Of a stage that is recomputed, held from the start of F to that of R; activation and context, of which it is a
  /// part, are held from then on. An R stands right before its backward, and words do not name it.
  std::optional<Bytes> input = std::nullopt;
  /// What an R takes. Times of backwards have it in them; it is the part that needs no gradient.
  Time recompute = 0;
  Bytes gradients = 0; // of its weights; what two copies of a stage sum
  /// What its forward takes together with a whole backward on its rank; absent: they never run together.
  std::optional<Time> overlapped = std::nullopt;
  /// The gradient that comes back of what F sends on, where its size is another; absent: `boundary`.
  std::optional<Bytes> boundaryGradient = std::nullopt;
  Bytes gradientBack() const { return boundaryGradient.value_or(boundary); }
  /// Equal stages have an equal size in one form.
  void setGradientBack(Bytes bytes) { boundaryGradient = bytes == boundary ? std::nullopt : std::optional(bytes); }
  bool operator==(const Stage &) const = default;
};

/// Makes a stage one that is recomputed. Its times of backwards must not have an R in them yet.
inline void recompute(Stage &stage, Bytes input, Time takes) {
  stage.input = input;
  stage.recompute = takes;
  stage.backwardInput += takes;
  stage.backward += takes;
}

/// A time of a stage, and what of it every order of a step takes.
struct StageTime {
  const char *name;
  Time (*of)(const Stage &);         // 0 where it is absent
  bool fused = false, split = false; // once for each microbatch, where backwards are fused, or split
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
  std::vector<int32_t> layers; // of the model; two or more, ascending
  std::vector<int32_t> stages; // that have them; one or more, ascending
  Bytes gradients = 0;         // what each of the ranks adds
  bool operator==(const SharedWeight &) const = default;
};

struct Problem {
  int32_t ranks = 1;
  int32_t microbatches = 1; // of one copy; a slice of a sequence counts as one
  BackwardMode backward = BackwardMode::Fused;
  bool mixed = false; // of split backwards: they may also be whole, where that takes less time
  bool cuts = false;  // passes may be cut into layers, of any times
  /// Pipelines side by side on the same ranks (bidirectional schedules), each with its own microbatches. `stages` holds
  /// the stages of the first copy, then those of the second.
  int32_t copies = 1;
  /// Into how many slices each sequence is cut. A slice counts as a microbatch; those of a sequence follow each other.
  /// F of a slice needs F of the slice before it on the same stage (for keys and values). Its backward needs the
  /// backward of the slice behind it (for their gradients).
  int32_t slices = 1;
  /// Backwards run in groups of this many microbatches, the last of each group first; 1: in order. A multiple of
  /// `slices`.
  int32_t backwardGroup = 1;
  std::vector<Stage> stages;
  std::vector<int32_t> rankOf;                       // stage → rank
  Link link;                                         // default of every directed pair
  std::map<std::pair<int32_t, int32_t>, Link> links; // (from, to) → exception
  std::vector<Bytes> staticBytes;                    // a rank each; empty: zero bytes
  std::vector<Bytes> workspace;                      // a rank each; empty: zero bytes
  Bytes memoryLimit = 0;                             // of the rank that may hold most; 0: none
  /// A rank each, how much less than memoryLimit it may hold; empty: nothing. So a limit by rank is, to all that knows
  /// what a rank holds in any order (`heldAlways`), one limit.
  std::vector<Bytes> withheld = {};
  // Time of the all-reduce of a gradient norm; absent: there is none. It starts when all ranks have done their last
  // backward, and all optimizers wait for it.
  std::optional<Time> globalNorm;
  /// In the order in which they are summed: those whose first layer is the last come first, as their last backward
  /// does.
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
  /// How long the stage before waits for a backward: for B, or for all of a fused one. weightTime is what W adds.
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
  /// How long a backward keeps the stage before waiting, at least, and what its weights take besides, whether it is
  /// split or whole.
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
  /// The (from, to) between which activations, gradients or collectives go.
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

/// How long the all-reduce of a gradient norm takes: 8 bytes over the n ranks as a ring, 2 (n - 1) hops of the ring's
/// slowest link.
Time globalNormTime(const Problem &problem);

/// How long a rank and its partner take to sum the gradients of the stages that both hold copies of: each sends the
/// other all of its gradients, both at once. The sum starts when both have done their last backward, and their
/// optimizers wait for it. 0 without a partner.
Time copySumTime(const Problem &problem, int32_t rank);
/// How many bytes each of the two sends.
Bytes copySumBytes(const Problem &problem, int32_t rank);

/// The ranks that hold a shared weight, ascending. Of several ranks, each starts the sum of the weight's gradients
/// after the last backward (W) of its stages that hold the weight, and after the sums of the weights before this
/// weight. The optimizer steps of these stages wait for the sum; so does a gradient norm.
std::vector<int32_t> ranksOf(const Problem &problem, const SharedWeight &weight);
/// How long the sum takes, in picoseconds. The n processes of the ring are the ranks in ascending order, each rank with
/// its `replicas`, whose links are `between`. The sum takes 2 (n - 1) hops; a hop carries 1/n of the bytes over the
/// slowest link of the ring. 0 on one rank; at most the largest Time.
Time sharedSumTime(const Problem &problem, const SharedWeight &weight, int32_t replicas = 1, const Link &between = {});
/// The stages of a rank, `held`, in the order of their optimizer steps: those that no sum holds up first, the others as
/// their sums come.
std::vector<int32_t> updateOrder(const Problem &problem, std::vector<int32_t> held);

/// Stage → rank, of the stages of two copies: the first in a loop, the second from the last rank to the first.
std::vector<int32_t> placedBothWays(int32_t ranks, int32_t stagesOfCopy);

/// Stage → rank: in a loop, s mod P, or there and back over the ranks, as often as there are chunks.
std::vector<int32_t> placed(int32_t ranks, int32_t stages, bool thereAndBack);

/// The kind of a pass in a word. Passes of one stage and kind run in a known order of microbatches, so a word names
/// none. Letters are dense: arrays are indexed by them. R stands in no word: it follows from its backward.
enum class Letter : uint8_t { F = 0, B = 1, W = 2, BW = 3, R = 4 };
inline constexpr size_t kLetters = 5;
inline constexpr size_t kWordLetters = 4; // those that words have: all below it

namespace detail {
inline constexpr std::array<plan::Kind, kLetters> kKindOf = {plan::Kind::Forward, plan::Kind::BackwardInput,
                                                             plan::Kind::BackwardWeight, plan::Kind::Backward,
                                                             plan::Kind::Recompute};
/// What follows from a letter's row in the table of kinds.
struct LetterRow {
  uint8_t counter = 0;
  int8_t activation = 0, context = 0, backwardContext = 0, input = 0; // 1: held from its start, -1: freed
  bool handsOver = false;                                             // the input, at its start
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
/// By what a stage's letters are numbered: 0: its F, 1: its backwards, B and BW, 2: its W.
constexpr size_t counterOf(Letter letter) { return detail::kLetterTable[size_t(letter)].counter; }

/// One letter of a word: a pass. An `overlapped` F runs together with the backward that follows it in the word: both
/// start when both can, and end together.
struct Op {
  int32_t stage = 0;
  Letter letter = Letter::F;
  bool overlapped = false;
  bool operator==(const Op &) const = default;
};

/// How long a letter of a stage takes; of a backward, with its R.
inline Time costOf(const Stage &stage, Letter letter) {
  return letter == Letter::F   ? stage.forward
         : letter == Letter::B ? stage.backwardInput
         : letter == Letter::W ? stage.backwardWeight
         : letter == Letter::R ? stage.recompute
                               : stage.backward;
}
/// The same without its R.
inline Time ownCost(const Stage &stage, Letter letter) {
  return costOf(stage, letter) - (letter == Letter::B || letter == Letter::BW ? stage.recompute : 0);
}
/// How long an overlapped F takes with the backward behind it.
inline Time pairCost(const Problem &problem, const Op &forward, const Op &backward) {
  const Stage &stage = problem.stages[size_t(forward.stage)];
  return stage.overlapped.value_or(stage.forward + ownCost(problem.stages[size_t(backward.stage)], backward.letter));
}
/// By how many bytes a letter alone, without its R, changes what its rank holds: what it takes at its start less what
/// it frees at its end. In 128 bits: sizes within the limits times as many microbatches may pass 2^63.
inline __int128 changeOf(const Stage &stage, Letter letter) {
  const detail::LetterRow row = detail::kLetterTable[size_t(letter)];
  if (letter == Letter::F && stage.input)
    return *stage.input;
  return __int128(row.activation * stage.activation) + row.context * stage.context +
         row.backwardContext * stage.backwardContext + row.input * stage.input.value_or(0);
}
/// By how many bytes it does so at its start.
inline __int128 takenBy(const Stage &stage, Letter letter) {
  const detail::LetterRow row = detail::kLetterTable[size_t(letter)];
  if (letter == Letter::F && stage.input)
    return *stage.input;
  return __int128(row.activation > 0 ? stage.activation : 0) + (row.context > 0 ? stage.context : 0) +
         (row.backwardContext > 0 ? stage.backwardContext : 0) - (row.handsOver ? stage.input.value_or(0) : 0);
}

/// One rank's compute order; the optimizer follows it.
using Word = std::vector<Op>;
/// words[r] is rank r's.
using Words = std::vector<Word>;

/// The stage whose R runs right before a letter of a word: that of a backward, which stands before the whole pair where
/// it runs together with a forward; -1: none.
inline int32_t recomputedBefore(const Problem &problem, const Word &word, size_t at) {
  if (at != 0 && word[at - 1].overlapped)
    return -1;
  const Op &backward = word[at].overlapped ? word[at + 1] : word[at];
  const bool needsIt = backward.letter == Letter::B || backward.letter == Letter::BW;
  return needsIt && problem.stages[size_t(backward.stage)].input ? backward.stage : -1;
}

/// A problem in which no stage keeps an input, and whose orders are orders of this one, as in
/// withoutBackwardContexts(): F holds the input until B ends, B the context until W ends, and room is left for the most
/// that an activation is larger than its input. R still needs no gradient.
Problem withoutInputs(const Problem &problem);

/// The same problem with no stage recomputed.
Problem withoutRecompute(const Problem &problem);

/// A problem without backward contexts whose orders are orders of this one: those that fit into its memory fit into
/// this one's too. A B that makes a context counts as one that frees less of its activation; where it makes more than
/// it frees, its F holds the rest. For the while in which it has both, room for the largest such context is left.
Problem withoutBackwardContexts(const Problem &problem);

/// Words in which one microbatch goes all the way before the next starts: no order holds less, none is longer.
Words oneAtATime(const Problem &problem);

/// What must hold of a problem: sizes of vectors, ranges, a stage on each rank, times and counts within Limits.h. Empty
/// when right, else what is wrong.
std::string check(const Problem &problem);
/// The two parts of `check`: all but times; and times, for which checkShape must have passed.
std::string checkShape(const Problem &problem);
std::string checkTimes(const Problem &problem);
/// Whether a step stays within limits::kTime in every order, since all work and all transfers one after the other do.
/// Needs check(problem) to have passed.
bool isNeverTooLong(const Problem &problem);
/// What must hold of a solution. There is a word for each rank. It has F and a backward of each of the rank's stages
/// `microbatches` times; a backward is BW or, where backwards are split, B and W. No prefix of a word has a backward
/// without its F, or more W than B. Behind an overlapped F stands a BW of another microbatch or stage. Ranks do not
/// wait for each other in a cycle. Empty when right, else what is wrong. Needs check(problem) to have passed.
/// O(letters).
std::string verify(const Problem &problem, const Words &words);

} // namespace pipec::schedule
