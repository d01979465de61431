// Finds the choices of stages to recompute with the least cost by a judge. If there are few choices, all are judged.
#pragma once

#include "compiler/schedule/model/TrialCost.h"
#include "compiler/schedule/recompute/Choices.h"

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace pipec::schedule {

/// None if the choice cannot be scheduled at all.
using JudgeStages = std::function<std::optional<TrialCost>(const Stages &)>;

class RecomputeSearch {
public:
  /// Judges all choices of `may` if there are at most kAll and at most `most`. Otherwise judges about `most` choices:
  /// `first`; for a fixed order, the fewest of the first stages and of the last that fit, and the empty choice if
  /// nothing must be recomputed; for any other order, the first n stages for all n; then the best of these without one
  /// stage after the other, the longest R first; then choices with one stage exchanged for another. Everything that
  /// `judge` refers to must outlive the search.
  RecomputeSearch(MayAgain may, std::vector<Stages> first, JudgeStages judge, int64_t most, bool isFixed = true);

  void run();

  bool looksAtAll() const;
  /// All judged choices, the best first.
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
  int64_t left; // choices that may still be judged
  std::set<std::pair<TrialCost, Stages>> best;
  std::map<Stages, std::optional<TrialCost>> known;
};

} // namespace pipec::schedule
