// What is to be scheduled, apart from any IR: ranks, stages, costs, links, memory; and what a solution is: a word for
// each rank. Solvers return words; `verify` judges them and shares no code with any solver. Times are picoseconds,
// sizes bytes; both stay within runtime/plan/Limits.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
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
};

/// Costs and sizes of one stage and one microbatch.
struct Stage {
  Time forward = 0;
  Time backwardInput = 0;  // split
  Time backwardWeight = 0; // split
  Time backward = 0;       // fused
  Time optimizer = 0;      // once a step
  Bytes boundary = 0;      // what F sends on; the gradient that comes back has this size too
  Bytes activation = 0;    // held from the start of F to the end of B
  Bytes context = 0;       // held from the start of F to the end of W (fused: of the backward)
};

struct Problem {
  int32_t ranks = 1;
  int32_t microbatches = 1;
  BackwardMode backward = BackwardMode::Fused;
  std::vector<Stage> stages;
  std::vector<int32_t> rankOf;                       // stage → rank
  Link link;                                         // default of every directed pair
  std::map<std::pair<int32_t, int32_t>, Link> links; // (from, to) → exception
  std::vector<Bytes> staticBytes;                    // a rank each; empty: zero bytes
  std::vector<Bytes> workspace;                      // a rank each; empty: zero bytes
  Bytes memoryLimit = 0;                             // of one rank; 0: none
  // Of the all-reduce of a gradient norm, which starts when all ranks have done their last backward and before which no
  // optimizer starts; absent: there is none.
  std::optional<Time> globalNorm;

  const Link &linkBetween(int32_t from, int32_t to) const;
  /// Stages of every rank, ascending.
  std::vector<std::vector<int32_t>> stagesByRank() const;
  /// From a stage's end to where its neighbour may start: wire and latency; 0 on one rank. Down (to = from + 1) and up
  /// alike carry the upstream stage's boundary.
  Time handOver(int32_t from, int32_t to) const;
};

/// bytes / bandwidth in picoseconds, rounded once, half up, in 128 bits; 0 where the bandwidth is unlimited; what does
/// not fit is the largest Time, which check refuses.
Time wireTime(Bytes bytes, int64_t bandwidth);

/// What the all-reduce of a gradient norm takes: 8 bytes over the ranks as a ring, 2 (n - 1) hops of its slowest link.
Time globalNormTime(const Problem &problem);

/// Stage → rank: in a loop, s mod P, or there and back over the ranks, as often as there are chunks.
std::vector<int32_t> placed(int32_t ranks, int32_t stages, bool thereAndBack);

/// One letter of a word. Microbatches of a (stage, kind) come in order, so a letter needs no number.
enum class Letter : uint8_t { F = 0, B = 1, W = 2, BW = 3 };

struct Op {
  int32_t stage = 0;
  Letter letter = Letter::F;
  bool operator==(const Op &) const = default;
};

/// How long a letter of a stage takes.
inline Time costOf(const Stage &stage, Letter letter) {
  return letter == Letter::F   ? stage.forward
         : letter == Letter::B ? stage.backwardInput
         : letter == Letter::W ? stage.backwardWeight
                               : stage.backward;
}
/// What a letter of a stage adds to the bytes held, F at its start, the others at their end. In 128 bits: sizes within
/// the limits times as many microbatches may pass 2^63.
inline __int128 changeOf(const Stage &stage, Letter letter) {
  const __int128 activation = stage.activation, context = stage.context;
  return letter == Letter::F   ? activation + context
         : letter == Letter::B ? -activation
         : letter == Letter::W ? -context
                               : -activation - context;
}

/// One rank's compute order; the optimizer follows it.
using Word = std::vector<Op>;
/// words[r] is rank r's.
using Words = std::vector<Word>;

/// What each rank holds whatever runs: static memory, workspace, and so many transfer buffers of the largest payload at
/// each end of each directed pair of ranks that talk.
std::vector<__int128> heldAlways(const Problem &problem, int32_t buffers);

/// The memory limit of a rank under which some order still fits, with one buffer for each direction of each pair of
/// ranks: one microbatch goes all the way before the next starts. Less there is none, since between a microbatch's last
/// F and first B a rank holds all that its stages keep of it.
Bytes leastLimit(const Problem &problem);

/// What holds of a problem: sizes of vectors, ranges, a stage on each rank, times and counts within Limits.h. Empty
/// when right, else what is wrong.
std::string check(const Problem &problem);
/// The two parts of it: all but how long things take, and that, which needs the first to have passed.
std::string checkShape(const Problem &problem);
std::string checkTimes(const Problem &problem);
/// Whether no order of these passes can make a step longer than limits::kTime: all work and all transfers one after the
/// other are not. Needs check(problem) to have passed.
bool isNeverTooLong(const Problem &problem);
/// What holds of a solution: a word for each rank, each letter of each stage exactly `microbatches` times on its rank,
/// no prefix with more B than F or more W than B, and no cycle between ranks. Empty when right, else what is wrong.
/// Needs check(problem) to have passed. O(letters).
std::string verify(const Problem &problem, const Words &words);

} // namespace pipec::schedule
