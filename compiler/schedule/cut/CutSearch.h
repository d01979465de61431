// The cuts that a judge likes best. Where there are few, none is missed.
#pragma once

#include "compiler/schedule/cut/Balance.h"
#include "compiler/schedule/model/TrialCost.h"
#include "runtime/plan/LeastTime.h"

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace pipec::schedule {

/// Nothing where the cut cannot be scheduled at all.
using JudgeCut = std::function<std::optional<TrialCost>(const Cut &)>;

class CutSearch {
public:
  /// All cuts are looked at where there are at most kAll. Else the search judges so many: `first`, the balanced ones,
  /// then such as differ from the best by a layer between two stages. What the judge refers to must outlive the search.
  CutSearch(CutWork work, std::vector<Cut> first, JudgeCut judge, int64_t most);

  /// Judges; of all cuts, those that the busiest rank's work does not rule out: it is less than `horizon`, and no more
  /// than the time of the best so far, or than `horizon` where that is more. To be called again with a later horizon.
  void run(Time horizon = 0);

  bool looksAtAll() const { return !all.empty(); }
  /// All that were judged, the best first.
  const std::set<std::pair<TrialCost, Cut>> &judged() const { return best; }
  /// `first`, and the cuts that people and programs choose: by shares of work, with the least busiest rank or stage.
  const std::vector<Cut> &usual() const { return starts; }
  /// What no cut beats: the least of `bound` over all cuts where all are looked at, else the busiest rank's least work.
  /// `bound` is nothing for a cut that does not fit.
  plan::LeastTime bound(const std::function<std::optional<plan::LeastTime>(const Cut &)> &bound) const;

  static constexpr int64_t kAll = 10'000;

private:
  void judge(const Cut &cut);
  void improve();

  const CutWork work;
  const JudgeCut judgeOf;
  int64_t left; // to be judged
  Balance balanced;
  std::vector<Cut> starts;
  std::vector<std::pair<Work, Cut>> all; // by their busiest rank; empty: too many
  size_t next = 0;                       // of `all`
  std::set<std::pair<TrialCost, Cut>> best;
  std::map<std::pair<TrialCost, Cut>, size_t> open; // whose neighbours have not all been looked at: how many have
  std::set<Cut> known;
};

} // namespace pipec::schedule
