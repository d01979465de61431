#include "compiler/schedule/recompute/Choices.h"

#include "compiler/schedule/model/Capacity.h"
#include "runtime/plan/Limits.h"

#include <algorithm>
#include <set>

namespace pipec::schedule {

namespace {

constexpr size_t kAllUpTo = 6; // stages: 64 choices
constexpr size_t kMostOfRank = 4;
constexpr int64_t kMostStages = int64_t(1) << 22; // of all problems together

/// The same of each copy of a stage.
void recompute(Problem &problem, int32_t stage, const Again &again) {
  for (int32_t copy = 0; copy != problem.copies; ++copy)
    recompute(problem.stages[size_t(copy * problem.stagesOfCopy() + stage)], again.input, again.recompute);
}

bool fits(const Problem &problem, const std::vector<__int128> &least, size_t rank) {
  return problem.memoryLimit == 0 || least[rank] <= problem.memoryLimit;
}

bool fits(const Problem &problem) { return problem.memoryLimit == 0 || leastLimit(problem) <= problem.memoryLimit; }

} // namespace

Problem recomputed(const Problem &problem, const MayAgain &may, const Stages &chosen) {
  Problem made = problem;
  for (const int32_t stage : chosen)
    recompute(made, stage, may.at(stage));
  return made;
}

Problem freest(const Problem &problem, const MayAgain &may) {
  Problem free = problem;
  for (const auto &[stage, again] : may)
    recompute(free, stage, {again.input, 0});
  return free;
}

std::vector<std::vector<Problem>> casesOf(const Problem &problem, const MayAgain &may) {
  std::vector<std::vector<Problem>> cases;
  if (may.size() <= kAllUpTo) {
    cases.emplace_back();
    eachChoice(may, [&](const Stages &chosen) {
      if (Problem made = recomputed(problem, may, chosen); fits(made))
        cases.back().push_back(std::move(made));
    });
    return cases;
  }
  cases.push_back({freest(problem, may)});
  std::vector<std::set<int32_t>> ofRank(size_t(problem.ranks)); // of `may`
  for (size_t s = 0; s != problem.stages.size(); ++s)
    if (const int32_t stage = int32_t(s) % problem.stagesOfCopy(); may.contains(stage))
      ofRank[size_t(problem.rankOf[s])].insert(stage);
  int64_t stages = 0;
  for (size_t rank = 0; rank != ofRank.size(); ++rank) {
    if (ofRank[rank].empty() || ofRank[rank].size() > kMostOfRank)
      continue;
    stages += int64_t(problem.stages.size()) << ofRank[rank].size();
    if (stages > kMostStages)
      break;
    MayAgain own, others = may;
    for (const int32_t stage : ofRank[rank]) {
      own.emplace(stage, may.at(stage));
      others.erase(stage);
    }
    const Problem free = freest(problem, others);
    std::vector<Problem> some;
    eachChoice(own, [&](const Stages &chosen) {
      Problem made = recomputed(free, own, chosen);
      if (fits(made, leastLimits(made), rank))
        some.push_back(std::move(made));
    });
    if (!some.empty())
      cases.push_back(std::move(some));
  }
  return cases;
}

std::vector<Stages> usualChoices(const Problem &problem, const MayAgain &may) {
  Stages all, notLast;
  std::vector<int32_t> last(size_t(problem.ranks), -1); // by rank, of its stages
  for (size_t s = 0; s != size_t(problem.stagesOfCopy()); ++s)
    last[size_t(problem.rankOf[s])] = int32_t(s);
  for (const auto &[stage, again] : may) {
    all.push_back(stage);
    if (last[size_t(problem.rankOf[size_t(stage)])] != stage)
      notLast.push_back(stage);
  }
  return {{}, all, notLast};
}

Bytes leastLimit(const Problem &problem, const MayAgain &may) {
  if (may.size() <= kAllUpTo) {
    Bytes least = limits::kBytes;
    eachChoice(may,
               [&](const Stages &chosen) { least = std::min(least, leastLimit(recomputed(problem, may, chosen))); });
    return least;
  }
  std::vector<__int128> least;
  for (const Stages &chosen : usualChoices(problem, may)) {
    const std::vector<__int128> its = leastLimits(recomputed(problem, may, chosen));
    if (least.empty())
      least = its;
    for (size_t rank = 0; rank != least.size(); ++rank)
      least[rank] = std::min(least[rank], its[rank]);
  }
  return Bytes(std::min<__int128>(*std::max_element(least.begin(), least.end()), limits::kBytes));
}

} // namespace pipec::schedule
