#include "compiler/schedule/evaluate/Fill.h"

#include "compiler/schedule/evaluate/Evaluate.h"
#include "compiler/schedule/model/Capacity.h"

#include <algorithm>
#include <deque>

namespace pipec::schedule {

namespace {

/// Of each rank: two buffers at each end of each neighbour on another rank.
std::vector<__int128> bufferBytes(const Problem &problem) {
  std::vector<__int128> bytes(size_t(problem.ranks), 0);
  for (size_t s = 0; s < problem.stages.size(); ++s)
    if (const int32_t next = problem.after(int32_t(s)); next >= 0 && problem.rankOf[s] != problem.rankOf[size_t(next)])
      for (int32_t rank : {problem.rankOf[s], problem.rankOf[size_t(next)]})
        bytes[size_t(rank)] += 2 * (__int128(problem.stages[s].boundary) + problem.stages[s].gradientBack());
  return bytes;
}

} // namespace

std::vector<std::vector<int32_t>> weightWaits(const Problem &problem, const Words &words) {
  Bytes most = 0;
  for (const Word &word : words)
    most = std::max(most, peakOf(problem, word));
  const std::vector<__int128> always = heldAlways(problem, 0), buffers = bufferBytes(problem);
  std::vector<std::vector<int32_t>> waits;
  for (size_t rank = 0; rank != words.size(); ++rank) {
    __int128 allowance = most;
    if (problem.memoryLimit != 0)
      allowance = std::min(allowance, __int128(problem.memoryLimit) - always[rank] - buffers[rank]);
    std::vector<int32_t> &own = waits.emplace_back();
    std::deque<__int128> deferred; // contexts of W that need not have run yet
    __int128 live = 0;
    int32_t completed = 0;
    const auto run = [&](const Stage &stage, Letter letter) {
      const __int128 taken = takenBy(stage, letter);
      for (; taken > 0 && live + taken > allowance && !deferred.empty(); ++completed) {
        live -= deferred.front();
        deferred.pop_front();
      }
      live += changeOf(stage, letter);
      if (taken > 0)
        own.back() = completed;
    };
    for (size_t at = 0; at != words[rank].size(); ++at) {
      const Op &op = words[rank][at];
      const Stage &stage = problem.stages[size_t(op.stage)];
      own.push_back(0);
      if (op.letter == Letter::W) {
        deferred.push_back(-changeOf(stage, op.letter));
        continue;
      }
      if (const int32_t again = recomputedBefore(problem, words[rank], at); again >= 0)
        run(problem.stages[size_t(again)], Letter::R);
      run(stage, op.letter);
    }
  }
  return waits;
}

} // namespace pipec::schedule
