// A scheduling problem: its derived quantities, and what must hold of it before anything else looks at it (design,
// section 3: limits, defaults). Rules are functions that return what is wrong, tried in an order in which each may rely
// on the ones before it.
#include "compiler/schedule/model/Problem.h"

#include "runtime/plan/Limits.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <utility>

namespace pipec::schedule {

namespace {

using Wide = __int128;

std::string checkCounts(const Problem &problem) {
  const auto stages = static_cast<int64_t>(problem.stages.size());
  if (problem.ranks < 1 || problem.ranks > limits::kRanks)
    return fmt::format("{} ranks, expected 1 to {}", problem.ranks, limits::kRanks);
  if (problem.microbatches < 1 || problem.microbatches > limits::kMicrobatches)
    return fmt::format("{} microbatches, expected 1 to {}", problem.microbatches, limits::kMicrobatches);
  if (stages < 1 || stages > limits::kStages)
    return fmt::format("{} stages, expected 1 to {}", stages, limits::kStages);
  const int64_t letters = problem.backward == BackwardMode::Fused ? 2 : 3;
  const int64_t executed = stages * letters * problem.microbatches + stages;
  if (executed > limits::kExecutedInstructions)
    return fmt::format("{} instructions a step, expected at most {}: fewer microbatches or stages", executed,
                       limits::kExecutedInstructions);
  return {};
}

std::string checkPlacement(const Problem &problem) {
  if (problem.rankOf.size() != problem.stages.size())
    return fmt::format("a placement of {} stages, expected {}", problem.rankOf.size(), problem.stages.size());
  std::vector<bool> used(problem.ranks, false);
  for (size_t s = 0; s < problem.rankOf.size(); ++s) {
    const int32_t rank = problem.rankOf[s];
    if (rank < 0 || rank >= problem.ranks)
      return fmt::format("stage {} is on rank {}, expected 0 to {}", s, rank, problem.ranks - 1);
    used[rank] = true;
  }
  const auto idle = std::find(used.begin(), used.end(), false);
  if (idle != used.end())
    return fmt::format("rank {} holds no stage, expected at least one on each rank", idle - used.begin());
  return {};
}

std::string checkCopies(const Problem &problem) {
  const auto stages = static_cast<int32_t>(problem.stages.size());
  if (problem.copies < 1 || problem.copies > 2 || stages % problem.copies != 0)
    return fmt::format("{} stages in {} copies, expected one copy or two equal ones", stages, problem.copies);
  if (problem.slices < 1 || problem.microbatches % problem.slices != 0)
    return fmt::format("{} microbatches of {} slices, expected whole ones", problem.microbatches, problem.slices);
  if (problem.backwardGroup < 1 || problem.backwardGroup % problem.slices != 0)
    return fmt::format("backwards in groups of {}, expected a multiple of the {} slices", problem.backwardGroup,
                       problem.slices);
  for (int32_t s = 0; problem.copies == 2 && s != stages / 2; ++s)
    if (problem.rankOf[size_t(s)] + problem.rankOf[size_t(s + stages / 2)] != problem.ranks - 1)
      return fmt::format("stage {} is on rank {} and its copy on rank {}, expected rank {}", s,
                         problem.rankOf[size_t(s)], problem.rankOf[size_t(s + stages / 2)],
                         problem.ranks - 1 - problem.rankOf[size_t(s)]);
  return {};
}

std::string checkStage(const Stage &stage, size_t index) {
  for (const StageTime &time : kStageTimes)
    if (const Time value = time.of(stage); value < 0 || value > limits::kTime)
      return fmt::format("stage {} has a {} of {} ps, expected 0 to {}", index, time.name, value, limits::kTime);
  const std::pair<const char *, int64_t> sizes[] = {{"boundary", stage.boundary},
                                                    {"boundary gradient", stage.gradientBack()},
                                                    {"activation", stage.activation},
                                                    {"weight context", stage.context},
                                                    {"backward context", stage.backwardContext},
                                                    {"recompute input", stage.input.value_or(0)},
                                                    {"gradient", stage.gradients}};
  for (const auto &[name, value] : sizes)
    if (value < 0 || value > limits::kBytes)
      return fmt::format("stage {} has a {} of {} bytes, expected 0 to {}", index, name, value, limits::kBytes);
  if (stage.input && *stage.input > Wide(stage.activation) + stage.context)
    return fmt::format("stage {} keeps an input of {} bytes for what takes {}, expected no more than that", index,
                       *stage.input, int64_t(Wide(stage.activation) + stage.context));
  return {};
}

std::string checkShared(const Problem &problem, const SharedWeight &weight) {
  const auto stages = static_cast<int32_t>(problem.stages.size());
  if (problem.copies != 1)
    return "two copies of the stages, which are not supported yet where layers share a weight";
  if (weight.gradients < 1 || weight.gradients > limits::kBytes)
    return fmt::format("a shared weight has gradients of {} bytes, expected 1 to {}", weight.gradients, limits::kBytes);
  bool ascends = !weight.stages.empty();
  for (size_t i = 0; i != weight.stages.size(); ++i)
    ascends &= weight.stages[i] < stages && weight.stages[i] >= (i == 0 ? 0 : weight.stages[i - 1] + 1);
  if (!ascends)
    return fmt::format("a shared weight is in stages [{}], expected stages 0 to {}, ascending",
                       fmt::join(weight.stages, ", "), stages - 1);
  return {};
}

std::string checkLink(const Link &link, const std::string &name) {
  if (link.latency < 0 || link.latency > limits::kTime)
    return fmt::format("{} has a latency of {} ps, expected 0 to {}", name, link.latency, limits::kTime);
  if (link.bandwidth < 0)
    return fmt::format("{} has a bandwidth of {} bytes a second, expected 0 (unlimited) or more", name, link.bandwidth);
  return {};
}

std::string checkLinks(const Problem &problem) {
  if (std::string wrong = checkLink(problem.link, "the default link"); !wrong.empty())
    return wrong;
  for (const auto &[pair, link] : problem.links) {
    const auto [from, to] = pair;
    if (from < 0 || from >= problem.ranks || to < 0 || to >= problem.ranks || from == to)
      return fmt::format("a link from rank {} to rank {}, expected two different ranks of 0 to {}", from, to,
                         problem.ranks - 1);
    if (std::string wrong = checkLink(link, fmt::format("the link from rank {} to rank {}", from, to)); !wrong.empty())
      return wrong;
  }
  return {};
}

std::string checkRankBytes(const std::vector<Bytes> &bytes, const char *name, int32_t ranks) {
  if (!bytes.empty() && bytes.size() != static_cast<size_t>(ranks))
    return fmt::format("{} of {} ranks, expected {}", name, bytes.size(), ranks);
  for (size_t r = 0; r < bytes.size(); ++r)
    if (bytes[r] < 0 || bytes[r] > limits::kBytes)
      return fmt::format("rank {} has {} of {} bytes, expected 0 to {}", r, name, bytes[r], limits::kBytes);
  return {};
}

std::string checkMemory(const Problem &problem) {
  if (std::string wrong = checkRankBytes(problem.staticBytes, "static memory", problem.ranks); !wrong.empty())
    return wrong;
  if (std::string wrong = checkRankBytes(problem.workspace, "workspace", problem.ranks); !wrong.empty())
    return wrong;
  if (problem.memoryLimit < 0 || problem.memoryLimit > limits::kBytes)
    return fmt::format("a memory limit of {} bytes, expected 0 (none) to {}", problem.memoryLimit, limits::kBytes);
  if (problem.memoryLimit == 0) // then there is nothing to withhold of
    return {};
  if (std::string wrong = checkRankBytes(problem.withheld, "withheld memory", problem.ranks); !wrong.empty())
    return wrong;
  for (int32_t r = 0; r != problem.ranks; ++r)
    if (problem.limitOf(r) < 1)
      return fmt::format("a memory limit of {} bytes on rank {}, expected 1 to {}", problem.limitOf(r), r,
                         limits::kBytes);
  return {};
}

std::string checkTransfers(const Problem &problem) {
  for (int32_t r = 0; r != problem.ranks; ++r)
    if (copySumTime(problem, r) > limits::kTime)
      return fmt::format("summing the gradients of rank {} and rank {} takes longer than {} ps, the longest step: "
                         "smaller gradients or a faster link",
                         r, problem.partnerOf(r), limits::kTime);
  for (const SharedWeight &weight : problem.shared)
    if (sharedSumTime(problem, weight) > limits::kTime)
      return fmt::format("summing the weight that layers {} share takes longer than {} ps, the longest step: smaller "
                         "gradients or a faster link",
                         fmt::join(weight.layers, ", "), limits::kTime);
  for (int32_t s = 0; s < static_cast<int32_t>(problem.stages.size()); ++s)
    for (const auto &[from, to] : {std::pair(s, problem.after(s)), std::pair(problem.after(s), s)})
      if (problem.after(s) >= 0 && problem.handOver(from, to) > limits::kTime)
        return fmt::format(
            "the transfer from stage {} to stage {} takes longer than {} ps, the longest step: a smaller "
            "{} or a faster link",
            from, to, limits::kTime,
            from > to && problem.stages[size_t(s)].boundaryGradient ? "boundary_gradient" : "boundary");
  return {};
}

/// Of each rank in a step: its work, and with `withTransfers` what it sends and receives.
std::vector<Wide> totals(const Problem &problem, bool withTransfers) {
  std::vector<Wide> total(size_t(problem.ranks), problem.globalNorm.value_or(0));
  for (int32_t r = 0; r != problem.ranks; ++r)
    total[size_t(r)] += copySumTime(problem, r);
  for (const SharedWeight &weight : problem.shared)
    for (const int32_t rank : ranksOf(problem, weight))
      total[size_t(rank)] += sharedSumTime(problem, weight);
  for (size_t s = 0; s < problem.stages.size(); ++s) {
    const Stage &stage = problem.stages[s];
    Wide each = 0; // for each microbatch
    for (const StageTime &time : kStageTimes) {
      if (problem.backward == BackwardMode::Fused ? time.fused : time.split)
        each += time.of(stage);
      if (time.onceAStep)
        total[size_t(problem.rankOf[s])] += time.of(stage);
    }
    if (problem.backward == BackwardMode::Split) // some may be whole
      each += std::max<Wide>(Wide(stage.backward) - stage.backwardInput - stage.backwardWeight, 0);
    const auto own = static_cast<int32_t>(s);
    for (const int32_t other : {problem.before(own), problem.after(own)}) // to and from each neighbour
      if (withTransfers && other >= 0)
        each += Wide(problem.handOver(own, other)) + problem.handOver(other, own);
    total[size_t(problem.rankOf[s])] += each * problem.microbatches;
  }
  return total;
}

std::string checkWork(const Problem &problem) {
  for (const auto &[withTransfers, does] : {std::pair(false, "works"), std::pair(true, "works and moves data")}) {
    const std::vector<Wide> total = totals(problem, withTransfers);
    const auto rank = std::find_if(total.begin(), total.end(), [](Wide time) { return time > limits::kTime; });
    if (rank != total.end())
      return fmt::format("rank {} {} longer than {} ps a step, the longest step: fewer microbatches or shorter costs{}",
                         rank - total.begin(), does, limits::kTime, withTransfers ? ", or faster links" : "");
  }
  return {};
}

} // namespace

/// The (from, to) of a ring of ranks.
static std::vector<std::pair<int32_t, int32_t>> ringOf(const std::vector<int32_t> &ranks) {
  std::vector<std::pair<int32_t, int32_t>> links;
  for (size_t i = 0; ranks.size() > 1 && i != ranks.size(); ++i)
    links.emplace_back(ranks[i], ranks[(i + 1) % ranks.size()]);
  return links;
}

const Link &Problem::linkBetween(int32_t from, int32_t to) const {
  const auto exception = links.find({from, to});
  return exception == links.end() ? link : exception->second;
}

std::set<std::pair<int32_t, int32_t>> Problem::linksUsed() const {
  std::set<std::pair<int32_t, int32_t>> used;
  for (int32_t stage = 0; stage != int32_t(stages.size()); ++stage)
    if (const int32_t next = after(stage); next >= 0) {
      const int32_t rank = rankOf[size_t(stage)], other = rankOf[size_t(next)];
      used.insert({{rank, other}, {other, rank}});
    }
  for (int32_t rank = 0; rank != ranks; ++rank) {
    if (partnerOf(rank) >= 0)
      used.emplace(rank, partnerOf(rank));
    if (globalNorm)
      used.emplace(rank, (rank + 1) % ranks);
  }
  for (const SharedWeight &weight : shared)
    for (const auto &link : ringOf(ranksOf(*this, weight)))
      used.insert(link);
  return used;
}

std::vector<std::vector<int32_t>> Problem::stagesByRank() const {
  std::vector<std::vector<int32_t>> result(ranks);
  for (size_t s = 0; s < rankOf.size(); ++s)
    result[rankOf[s]].push_back(static_cast<int32_t>(s));
  return result;
}

/// The problem with each stage changed by `change`, which returns for how many bytes beside what its passes then hold
/// the stage's rank must leave room: for those of one stage at a time.
template <typename Change> static Problem withRoom(const Problem &problem, Change change) {
  Problem plain = problem;
  plain.workspace.resize(size_t(problem.ranks));
  std::vector<Bytes> room(size_t(problem.ranks));
  for (size_t s = 0; s != problem.stages.size(); ++s) {
    Bytes &most = room[size_t(problem.rankOf[s])];
    most = std::max(most, change(plain.stages[s]));
  }
  for (size_t r = 0; r != room.size(); ++r)
    plain.workspace[r] = std::min(plain.workspace[r] + room[r], limits::kBytes);
  return plain;
}

Problem withoutBackwardContexts(const Problem &problem) {
  return withRoom(problem, [](Stage &stage) {
    const Bytes made = std::exchange(stage.backwardContext, 0);
    stage.activation -= std::min(stage.activation, made);
    stage.context = std::min(stage.context + made, limits::kBytes);
    return made;
  });
}

Problem withoutRecompute(const Problem &problem) {
  Problem without = problem;
  for (Stage &stage : without.stages) {
    const Time again = std::exchange(stage.recompute, 0);
    stage.backward -= again;
    stage.backwardInput -= again;
    stage.input.reset();
  }
  return without;
}

Problem withoutInputs(const Problem &problem) {
  return withRoom(problem, [&](Stage &stage) -> Bytes {
    if (!stage.input)
      return 0;
    const Bytes both = std::min(stage.activation + stage.context, limits::kBytes);
    const bool isSplit = problem.backward == BackwardMode::Split;
    // What R adds to its input: of a split backward B takes the context. A whole one needs both at once.
    const Bytes room = std::max<Bytes>((isSplit && !problem.mixed ? stage.activation : both) - *stage.input, 0);
    if (isSplit)
      stage.backwardContext = std::min(stage.backwardContext + stage.context, limits::kBytes);
    stage.activation = *std::exchange(stage.input, std::nullopt);
    stage.context = 0;
    return room;
  });
}

Words oneAtATime(const Problem &problem) {
  Words words(size_t(problem.ranks));
  const auto count = static_cast<int32_t>(problem.stages.size());
  const std::vector<Letter> back =
      problem.backward == BackwardMode::Fused ? std::vector{Letter::BW} : std::vector{Letter::B, Letter::W};
  for (int32_t m = 0; m != problem.microbatches; ++m) {
    for (int32_t s = 0; s != count; ++s)
      words[size_t(problem.rankOf[size_t(s)])].push_back({s, Letter::F});
    for (int32_t s = count; s-- > 0;)
      for (const Letter letter : back)
        words[size_t(problem.rankOf[size_t(s)])].push_back({s, letter});
  }
  return words;
}

std::vector<int32_t> placed(int32_t ranks, int32_t stages, bool thereAndBack) {
  std::vector<int32_t> rankOf;
  for (int32_t s = 0; s != stages; ++s)
    rankOf.push_back(thereAndBack && s / ranks % 2 == 1 ? ranks - 1 - s % ranks : s % ranks);
  return rankOf;
}

std::vector<int32_t> placedBothWays(int32_t ranks, int32_t stagesOfCopy) {
  std::vector<int32_t> rankOf = placed(ranks, stagesOfCopy, false);
  for (int32_t s = 0; s != stagesOfCopy; ++s)
    rankOf.push_back(ranks - 1 - rankOf[size_t(s)]);
  return rankOf;
}

void Problem::limitRanks(const std::vector<Bytes> &limits) {
  memoryLimit = *std::max_element(limits.begin(), limits.end());
  withheld.clear();
  if (std::any_of(limits.begin(), limits.end(), [this](Bytes limit) { return limit != memoryLimit; }))
    for (const Bytes limit : limits)
      withheld.push_back(memoryLimit - limit);
}

int32_t Problem::partnerOf(int32_t rank) const { return copies == 1 || 2 * rank == ranks - 1 ? -1 : ranks - 1 - rank; }

Bytes copySumBytes(const Problem &problem, int32_t rank) {
  Wide bytes = 0;
  for (size_t s = 0; problem.partnerOf(rank) >= 0 && s != problem.stages.size(); ++s)
    if (problem.rankOf[s] == rank)
      bytes += problem.stages[s].gradients;
  return static_cast<Bytes>(std::min<Wide>(bytes, limits::kBytes));
}

Time copySumTime(const Problem &problem, int32_t rank) {
  const int32_t partner = problem.partnerOf(rank);
  Wide slowest = 0;
  if (partner >= 0)
    for (const auto &[from, to] : {std::pair(rank, partner), std::pair(partner, rank)}) {
      const Link &link = problem.linkBetween(from, to);
      slowest = std::max(slowest, Wide(wireTime(copySumBytes(problem, rank), link.bandwidth)) + link.latency);
    }
  return static_cast<Time>(std::min<Wide>(slowest, std::numeric_limits<Time>::max()));
}

std::vector<int32_t> ranksOf(const Problem &problem, const SharedWeight &weight) {
  std::vector<int32_t> ranks;
  for (const int32_t stage : weight.stages)
    ranks.push_back(problem.rankOf[size_t(stage)]);
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

Time sharedSumTime(const Problem &problem, const SharedWeight &weight, int32_t replicas, const Link &between) {
  constexpr Wide kPicosecondsPerSecond = 1'000'000'000'000;
  const std::vector<int32_t> ranks = ranksOf(problem, weight);
  const Wide processes = Wide(ranks.size()) * replicas, hops = 2 * (processes - 1);
  Wide slowest = 0;
  const auto offer = [&](const Link &link) {
    const Wide divisor = processes * link.bandwidth;
    const Wide wire =
        link.bandwidth == 0 ? 0 : (hops * weight.gradients * kPicosecondsPerSecond + divisor / 2) / divisor;
    slowest = std::max(slowest, hops * link.latency + wire);
  };
  if (ranks.size() < 2)
    return 0;
  if (replicas > 1)
    offer(between);
  for (const auto &[from, to] : ringOf(ranks))
    offer(problem.linkBetween(from, to));
  return static_cast<Time>(std::min<Wide>(slowest, std::numeric_limits<Time>::max()));
}

std::vector<int32_t> updateOrder(const Problem &problem, std::vector<int32_t> held) {
  const auto lastSum = [&](int32_t stage) { // of its weights; -1: none
    for (size_t w = problem.shared.size(); w-- != 0;)
      if (const SharedWeight &weight = problem.shared[w];
          std::binary_search(weight.stages.begin(), weight.stages.end(), stage) && ranksOf(problem, weight).size() > 1)
        return int64_t(w);
    return int64_t(-1);
  };
  if (!problem.shared.empty())
    std::sort(held.begin(), held.end(), [&](int32_t one, int32_t other) {
      return std::pair(lastSum(one), one) < std::pair(lastSum(other), other);
    });
  return held;
}

Time Problem::handOver(int32_t from, int32_t to) const {
  if (rankOf[from] == rankOf[to])
    return 0;
  const Link &over = linkBetween(rankOf[from], rankOf[to]);
  const Time wire = wireTime(bytesBetween(from, to), over.bandwidth);
  return wire > std::numeric_limits<Time>::max() - over.latency ? std::numeric_limits<Time>::max()
                                                                : wire + over.latency;
}

Time wireTime(Bytes bytes, int64_t bandwidth) {
  constexpr int64_t kPicosecondsPerSecond = 1'000'000'000'000;
  if (bandwidth == 0)
    return 0;
  // Half up as (2n + d) / 2d: below 2^103 for 64-bit bytes.
  const Wide time = (Wide(bytes) * kPicosecondsPerSecond * 2 + bandwidth) / (Wide(bandwidth) * 2);
  return time > std::numeric_limits<Time>::max() ? std::numeric_limits<Time>::max() : static_cast<Time>(time);
}

Time globalNormTime(const Problem &problem) {
  constexpr Bytes kNorm = 8;
  Wide slowest = 0;
  for (int32_t rank = 0; rank < problem.ranks; ++rank) {
    const Link &link = problem.linkBetween(rank, (rank + 1) % problem.ranks);
    slowest = std::max(slowest, Wide(wireTime(kNorm, link.bandwidth)) + link.latency);
  }
  return static_cast<Time>(std::min<Wide>(2 * Wide(problem.ranks - 1) * slowest, std::numeric_limits<Time>::max()));
}

std::string checkShape(const Problem &problem) {
  if (std::string wrong = checkCounts(problem); !wrong.empty())
    return wrong;
  if (std::string wrong = checkPlacement(problem); !wrong.empty())
    return wrong;
  if (std::string wrong = checkCopies(problem); !wrong.empty())
    return wrong;
  for (size_t s = 0; s < problem.stages.size(); ++s)
    if (std::string wrong = checkStage(problem.stages[s], s); !wrong.empty())
      return wrong;
  for (const SharedWeight &weight : problem.shared)
    if (std::string wrong = checkShared(problem, weight); !wrong.empty())
      return wrong;
  if (std::string wrong = checkLinks(problem); !wrong.empty())
    return wrong;
  return checkMemory(problem);
}

std::string checkTimes(const Problem &problem) {
  std::string wrong = checkTransfers(problem);
  return wrong.empty() ? checkWork(problem) : wrong;
}

std::string check(const Problem &problem) {
  std::string wrong = checkShape(problem);
  return wrong.empty() ? checkTimes(problem) : wrong;
}

bool isNeverTooLong(const Problem &problem) {
  Wide all = 0;
  for (const Wide time : totals(problem, true))
    all += time;
  return all <= limits::kTime;
}

} // namespace pipec::schedule
