// The entries of the catalogue, one per file of this folder.
#pragma once

#include "compiler/schedule/catalogue/Catalogue.h"
#include "compiler/schedule/construct/ListSchedule.h"

#include <algorithm>

namespace pipec::schedule {

Entry chimera();
Entry dualPipe();
Entry dualPipeV();
Entry eagerOneFOneB();
Entry gPipe();
Entry gis();
Entry gisH();
Entry hanayo();
Entry interleavedOneFOneB();
Entry interleavedZb();
Entry kFkB();
Entry loopedBfs();
Entry oneFOneB();
Entry oneFOneBV();
Entry slack();
Entry seq1f1b();
Entry vHalf();
Entry vMin();
Entry vZb();
Entry zbH1();
Entry zbH2();
Entry zbV();

/// Appends a stage's backward: BW, or B with W directly after it.
inline void appendBackward(const Problem &problem, Word &word, int32_t stage) {
  if (problem.backward == BackwardMode::Fused) {
    word.push_back({stage, Letter::BW});
    return;
  }
  word.push_back({stage, Letter::B});
  word.push_back({stage, Letter::W});
}

/// A rank's order for one stage: `warmUp` forwards, at least one, then one backward and one forward in turn, then the
/// remaining backwards.
inline Word oneByOne(const Problem &problem, int32_t stage, int64_t warmUp) {
  const int64_t m = problem.microbatches;
  Word word;
  word.reserve(size_t(m) * (problem.backward == BackwardMode::Fused ? 2 : 3));
  word.assign(size_t(std::min(warmUp, m)), {stage, Letter::F});
  for (int64_t backwards = 0; backwards < m; ++backwards) {
    appendBackward(problem, word, stage);
    if (warmUp + backwards < m)
      word.push_back({stage, Letter::F});
  }
  return word;
}

/// The words of a schedule that its paper defines by a rule for what a rank runs next: list scheduling with that rule,
/// where F, B and W take equally long and links cost nothing.
inline Words played(const Problem &problem, const Policy &rule) {
  Problem unit;
  unit.ranks = problem.ranks;
  unit.microbatches = problem.microbatches;
  unit.backward = problem.backward;
  unit.copies = problem.copies;
  unit.rankOf = problem.rankOf;
  unit.stages.assign(problem.stages.size(), {.forward = 1, .backwardInput = 1, .backwardWeight = 1, .backward = 2});
  return *listSchedule(unit, {}, rule); // without a memory limit it always succeeds
}

/// The least steady period (time per microbatch) that any slack reaches: the busiest rank's work, or the longest
/// transfer.
Time leastSlackPeriod(const Problem &problem);
/// By link, from the first: the least slack (forwards that the ranks before the link run ahead) with which the link's
/// transfers do not make the steady period longer than `period`, which must be at least leastSlackPeriod.
std::vector<int64_t> slackFor(const Problem &problem, Time period);
/// The slack for the shortest period, `period` or longer, that memory holds together with the transfer buffers needed.
/// None if memory does not even hold 1F1B. O(letters) of some tens of orders.
std::optional<std::vector<int64_t>> slackWithin(const Problem &problem, Time period);

/// How microbatches pass through a rank's chunks in the interleaved schedules.
struct Interleaving {
  int32_t chunks;     // per rank
  int64_t firstGroup; // microbatches of the first group
  /// Chunk of each of a rank's forwards, by number on the rank; backwards take the chunks in reverse.
  std::vector<int32_t> order;
};
Interleaving interleavingOf(const Problem &problem, const Parameters &parameters);
/// The words in which rank r runs (v - 1)g + 2(p - 1 - r) + `later` forwards, then one forward and one backward in
/// turn, then the remaining backwards; with v chunks and a first group of g microbatches.
Words oneByOne(const Problem &problem, const Interleaving &interleaving, int64_t later);
/// Refuses a `group` that is too small: its first microbatch would return to a rank before the group has left the rank.
std::string refusesGroup(std::string_view name, const Problem &problem, const Parameters &parameters);

} // namespace pipec::schedule
