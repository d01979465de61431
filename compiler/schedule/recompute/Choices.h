// A problem in which some stages may be recomputed or not: problems for single choices, and problems that bound all
// choices.
#pragma once

#include "compiler/schedule/model/Problem.h"

#include <map>
#include <vector>

namespace pipec::schedule {

/// Stage numbers within a copy, ascending.
using Stages = std::vector<int32_t>;

/// The input that a recomputed stage keeps, and the time of its R.
struct Again {
  Bytes input = 0;
  Time recompute = 0;
};
/// By stage within a copy: the stages that may be recomputed.
using MayAgain = std::map<int32_t, Again>;

/// `problem`, in which no stage of `may` is recomputed yet, with the stages of `chosen` recomputed.
Problem recomputed(const Problem &problem, const MayAgain &may, const Stages &chosen);

/// The problem with all of `may` recomputed in no time. Compared to any choice it has the same passes, none of which
/// takes longer, and holds no more between a forward and its backward. Bounds count only this, so no bound of this
/// problem exceeds that of a choice.
Problem freest(const Problem &problem, const MayAgain &may);

/// Lists of problems that bound all choices. Take any choice of `may` and any order that fits into memory: in each
/// list, the order is also an order of at least one problem, and takes no less time than there. So the least bound of a
/// list holds for all choices, and so does the largest of the lists' bounds. If there are few choices, there is one
/// list of all choices. Otherwise there is a list for each rank: the rank's stages are recomputed or not, and the
/// stages of other ranks are recomputed at no cost.
std::vector<std::vector<Problem>> casesOf(const Problem &problem, const MayAgain &may);

/// The least memory limit under which some choice has an order. If there are few choices, all are tried; else none,
/// all, and all but the last stage of each rank, by rank.
Bytes leastLimit(const Problem &problem, const MayAgain &may);

/// The choices that need the least memory when one microbatch runs completely before the next starts, and that hold the
/// least when many are in flight: none, all, and all but the last stage of each rank.
std::vector<Stages> usualChoices(const Problem &problem, const MayAgain &may);

/// Calls `see` with every choice, beginning with the empty one.
template <typename See> void eachChoice(const MayAgain &may, See see) {
  for (uint64_t set = 0; set != uint64_t(1) << may.size(); ++set) {
    Stages chosen;
    uint64_t bit = 1;
    for (const auto &[stage, again] : may) {
      if ((set & bit) != 0)
        chosen.push_back(stage);
      bit <<= 1;
    }
    see(chosen);
  }
}

} // namespace pipec::schedule
