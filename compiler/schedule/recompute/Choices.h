// A problem whose stages may be recomputed or not: one choice of them, and problems that no choice beats.
#pragma once

#include "compiler/schedule/model/Problem.h"

#include <map>
#include <vector>

namespace pipec::schedule {

/// Stages of a copy, ascending.
using Stages = std::vector<int32_t>;

/// What a stage that may be recomputed keeps and takes then.
struct Again {
  Bytes input = 0;
  Time recompute = 0;
};
/// By stage of a copy.
using MayAgain = std::map<int32_t, Again>;

/// `problem`, in which none of `may` is recomputed, with these of them.
Problem recomputed(const Problem &problem, const MayAgain &may, const Stages &chosen);

/// All of `may` recomputed in no time. For any choice it has the same passes, of which none takes longer, and holds no
/// more between a forward and its backward, which is what bounds count: no bound of it is above that of a choice.
Problem freest(const Problem &problem, const MayAgain &may);

/// Lists of problems. Of each list one is such that every order of the problem with any choice of `may` that fits into
/// memory has, as an order of that one, no less time. So the least bound of a list holds for all choices, and the best
/// of the lists' bounds too. One list of all choices where they are few; else a list a rank, in which the rank's stages
/// are recomputed or not, and the other ranks' are, at no cost.
std::vector<std::vector<Problem>> casesOf(const Problem &problem, const MayAgain &may);

/// The least memory limit under which some choice has an order: of all choices where they are few, else of none, all,
/// and all but the last of each rank, by rank.
Bytes leastLimit(const Problem &problem, const MayAgain &may);

/// The choices that need least memory where one microbatch goes all the way before the next starts, and that hold least
/// when many are on their way: none, all, and all but the last of each rank.
std::vector<Stages> usualChoices(const Problem &problem, const MayAgain &may);

/// Calls `see` with all choices, the none first.
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
