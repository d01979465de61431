#include "compiler/schedule/exchange/LateWeights.h"

#include <algorithm>

namespace pipec::schedule {
namespace {

/// F and B in their order, and W as soon as `late` more B than it needs have run; the rest at the end.
Word delayed(const Word &word, int32_t late) {
  Word made;
  std::vector<Op> owed; // W whose B has run
  for (const Op &op : word) {
    if (op.letter == Letter::W)
      continue;
    made.push_back(op);
    if (op.letter != Letter::B)
      continue;
    owed.push_back({op.stage, Letter::W});
    if (int32_t(owed.size()) > late) {
      made.push_back(owed.front());
      owed.erase(owed.begin());
    }
  }
  made.insert(made.end(), owed.begin(), owed.end());
  return made;
}

bool fits(const Problem &problem, int32_t rank, const Word &word) {
  const Bytes limit = problem.limitOf(rank);
  if (limit == 0)
    return true;
  __int128 live = problem.staticBytes.empty() ? 0 : problem.staticBytes[size_t(rank)];
  live += problem.workspace.empty() ? 0 : problem.workspace[size_t(rank)];
  for (const Op &op : word) {
    const Stage &stage = problem.stages[size_t(op.stage)];
    if (live + takenBy(stage, op.letter) > limit)
      return false;
    live += changeOf(stage, op.letter);
  }
  return true;
}

} // namespace

Words withLateWeights(const Problem &problem, const Words &words, const std::function<int32_t(int32_t)> &late) {
  Words made;
  for (size_t rank = 0; rank != words.size(); ++rank) {
    Word best = words[rank];
    for (int32_t by = late(int32_t(rank)); by >= 0; --by)
      if (Word word = delayed(words[rank], by); fits(problem, int32_t(rank), word)) {
        best = std::move(word);
        break;
      }
    made.push_back(std::move(best));
  }
  return made;
}

} // namespace pipec::schedule
