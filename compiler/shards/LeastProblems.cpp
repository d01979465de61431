#include "compiler/shards/LeastProblems.h"

#include "compiler/shards/ShardedRanks.h"
#include "compiler/spec/Stages.h"

namespace pipec {

namespace {

/// One placement's, of each way to say it.
std::vector<schedule::LeastProblem> leastProblems(const spec::Spec &spec, const ShardedRanks &ranks,
                                                  const schedule::Problem &problem) {
  const bool given = isFixed(spec.tensorParallel.balance);
  std::vector<schedule::LeastProblem> all;
  for (const Least &by : leastsOf(ranks.groups())) {
    schedule::Problem least = problem;
    for (size_t s = 0; s != least.stages.size(); ++s)
      useTimes(spec, ranks.leastOf(s, by, given), s, least);
    if (given && !spec.recomputed.chooses)
      ranks.useFullestShards(least);
    else // other portions, or other stages that are recomputed, hold less somewhere
      least.memoryLimit = 0;
    all.push_back(schedule::LeastProblem::proven(std::move(least)));
  }
  return all;
}

} // namespace

schedule::LeastWays leastWays(const spec::Spec &spec, const std::vector<schedule::Problem> &placements,
                              const std::vector<plan::Portion> &rows) {
  schedule::LeastWays ways;
  for (const schedule::Problem &each : placements) {
    std::vector<schedule::LeastProblem> own;
    if (!hasShards(spec)) {
      own.push_back(schedule::LeastProblem::proven(each));
    } else {
      const std::vector<int64_t> cut = spec::cutOf(spec, each.stagesOfCopy());
      own = leastProblems(
          spec, rows.empty() || !ways.empty() ? ShardedRanks(spec, each, cut) : ShardedRanks(spec, each, cut, rows),
          each);
    }
    ways.resize(own.size());
    for (size_t way = 0; way != own.size(); ++way)
      ways[way].push_back(std::move(own[way]));
  }
  return ways;
}

} // namespace pipec
