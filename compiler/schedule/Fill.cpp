#include "compiler/schedule/Fill.h"

#include <algorithm>
#include <deque>

namespace pipec::schedule {

namespace {

/// The most that is live with every letter in its place.
__int128 peakOf(const Problem &problem, const Word &word) {
  __int128 live = 0, most = 0;
  for (Op op : word) {
    const Stage &stage = problem.stages[size_t(op.stage)];
    if (op.letter == Letter::F)
      most = std::max(most, live += __int128(stage.activation) + stage.context);
    else
      live -= op.letter == Letter::B ? stage.activation : stage.context;
  }
  return most;
}

/// Two buffers at each end of each neighbour on another rank.
__int128 buffersOf(const Problem &problem, int32_t rank) {
  __int128 bytes = 0;
  for (size_t s = 0; s + 1 < problem.stages.size(); ++s)
    if (problem.rankOf[s] != problem.rankOf[s + 1] && (problem.rankOf[s] == rank || problem.rankOf[s + 1] == rank))
      bytes += 4 * __int128(problem.stages[s].boundary);
  return bytes;
}

} // namespace

std::vector<std::vector<int32_t>> weightWaits(const Problem &problem, const Words &words) {
  __int128 most = 0;
  for (const Word &word : words)
    most = std::max(most, peakOf(problem, word));
  std::vector<std::vector<int32_t>> waits;
  for (size_t rank = 0; rank != words.size(); ++rank) {
    __int128 allowance = most;
    if (problem.memoryLimit != 0)
      allowance = std::min(allowance, __int128(problem.memoryLimit) - problem.staticBytes[rank] -
                                          problem.workspace[rank] - buffersOf(problem, int32_t(rank)));
    std::vector<int32_t> &own = waits.emplace_back();
    std::deque<Bytes> deferred; // contexts of W that need not have run yet
    __int128 live = 0;
    int32_t completed = 0;
    for (Op op : words[rank]) {
      const Stage &stage = problem.stages[size_t(op.stage)];
      own.push_back(0);
      if (op.letter == Letter::B)
        live -= stage.activation;
      else if (op.letter == Letter::W)
        deferred.push_back(stage.context);
      if (op.letter != Letter::F)
        continue;
      live += __int128(stage.activation) + stage.context;
      for (; live > allowance && !deferred.empty(); ++completed) {
        live -= deferred.front();
        deferred.pop_front();
      }
      own.back() = completed;
    }
  }
  return waits;
}

} // namespace pipec::schedule
