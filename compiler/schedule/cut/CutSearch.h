// Finds the cuts with the least cost by a judge. If there are few cuts, all are judged.
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

/// None if the cut cannot be scheduled at all.
using JudgeCut = std::function<std::optional<TrialCost>(const Cut &)>;

class CutSearch {
public:
  /// Considers all cuts if there are at most kAll. Otherwise judges up to `most` cuts: `first`, the balanced ones, then
  /// cuts that differ from the best by one layer moved between two stages. Everything that `judge` refers to must
  /// outlive the search.
  CutSearch(CutWork work, std::vector<Cut> first, JudgeCut judge, int64_t most);

  /// Judges cuts. If all are considered, skips cuts with a busiest rank's work above both `horizon` and the time of the
  /// best cut so far; while no cut fits, none is skipped. May be called again with a larger horizon.
  void run(Time horizon = 0);

  bool looksAtAll() const { return !all.empty(); }
  /// All judged cuts, the best first.
  const std::set<std::pair<TrialCost, Cut>> &judged() const { return best; }
  /// `first`, and the usual cuts: proportional to work, with the least busiest rank, with the fastest slowest stage.
  const std::vector<Cut> &usual() const { return starts; }
  /// A lower bound for every cut: the least of `bound` over all cuts if all are considered, else the least work of the
  /// busiest rank. `bound` returns none for a cut that does not fit.
  plan::LeastTime bound(const std::function<std::optional<plan::LeastTime>(const Cut &)> &bound) const;

  static constexpr int64_t kAll = 10'000;

private:
  void judge(const Cut &cut);
  void improve();

  const CutWork work;
  const JudgeCut judgeOf;
  int64_t left; // cuts that may still be judged
  Balance balanced;
  std::vector<Cut> starts;
  std::vector<std::pair<Work, Cut>> all; // by the busiest rank's work; empty: too many to list
  size_t next = 0;                       // index in `all`
  std::set<std::pair<TrialCost, Cut>> best;
  /// Judged cuts with neighbours still to judge; value: how many neighbours are judged.
  std::map<std::pair<TrialCost, Cut>, size_t> open;
  std::set<Cut> known;
};

} // namespace pipec::schedule
