// The choices of stages to recompute that a judge likes best. Where there are few, none is missed.
#pragma once

#include "compiler/schedule/model/TrialCost.h"
#include "compiler/schedule/recompute/Choices.h"

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace pipec::schedule {

/// Nothing where the choice cannot be scheduled at all.
using JudgeStages = std::function<std::optional<TrialCost>(const Stages &)>;

class RecomputeSearch {
public:
  /// Judges all choices of `may` where there are at most kAll, and `most`. Else about so many: `first`; of a fixed
  /// order, the fewest of the first stages and of the last that fit, and none where nothing must run again; of any, the
  /// first n for all n; the best of these less a stage after the other, the longest R first; then such as have one
  /// stage in place of another. What the judge refers to must outlive the search.
  RecomputeSearch(MayAgain may, std::vector<Stages> first, JudgeStages judge, int64_t most, bool isFixed = true);

  void run();

  bool looksAtAll() const;
  /// All that were judged, the best first.
  const std::set<std::pair<TrialCost, Stages>> &judged() const { return best; }

  static constexpr int64_t kAll = 256;

private:
  std::optional<TrialCost> judge(const Stages &chosen);
  void fewestThatFit(const Stages &order);
  void eachBeginning(const Stages &order);
  void leaveOut();
  void exchange();

  const MayAgain may;
  const std::vector<Stages> first;
  const JudgeStages judgeOf;
  const int64_t most;
  const bool isFixed;
  int64_t left; // to be judged
  std::set<std::pair<TrialCost, Stages>> best;
  std::map<Stages, std::optional<TrialCost>> known;
};

} // namespace pipec::schedule
