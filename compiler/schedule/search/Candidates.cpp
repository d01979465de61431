// The kinds of recipes: published schedules; microbatches woven one by one; list scheduling under policies; blocks in
// real time, by interval and room at each hop; rounds of several microbatches; and blocks of equal slots, whose orders
// suit unequal passes too.
#include "compiler/schedule/search/Candidates.h"

#include "compiler/schedule/catalogue/Entries.h"
#include "compiler/schedule/construct/FoldedBlock.h"
#include "compiler/schedule/search/Ways.h"
#include "runtime/plan/Limits.h"

#include <algorithm>
#include <fmt/format.h>

namespace pipec::schedule {

namespace {

std::vector<Candidate> published(const Problem &problem) {
  std::vector<Candidate> result;
  for (const Entry &entry : catalogue())
    if (!entry.mixesBackwards && check(entry, problem, {}).empty()) // a search moves letters of one kind
      result.push_back(
          {publishedWay(entry.name), std::string(entry.name), [&entry](const Problem &given, const Capacities &) {
             return check(entry, given, {}).empty() ? std::optional(wordsOf(entry, given, {})) : std::nullopt;
           }});
  return result;
}

/// Per-link slack, where memory does not hold the slack that would hide all transfers: for the shortest steady period
/// that memory allows.
std::vector<Candidate> slacks(const Problem &problem, const Capacities &capacities) {
  const Entry &entry = *find("slack");
  if (capacities.empty() || !check(entry, problem, {}).empty())
    return {};
  const auto fits = [&](const std::vector<int64_t> &slack) {
    __int128 warmUp = 1;
    for (size_t r = size_t(problem.ranks); r-- > 0;) {
      warmUp += r < slack.size() ? slack[r] : 0;
      const Stage &stage = problem.stages[r];
      if ((__int128(stage.activation) + stage.context) * std::min<__int128>(warmUp, problem.microbatches) >
          capacities[r])
        return false;
    }
    return true;
  };
  Time low = leastSlackPeriod(problem), high = low;
  while (high < limits::kTime && !fits(slackFor(problem, high)))
    high *= 2;
  if (high == low || !fits(slackFor(problem, high)))
    return {}; // all of it fits, as published, or none
  while (high - low > std::max<Time>(low / 1000, 1)) {
    const Time middle = low + (high - low) / 2;
    (fits(slackFor(problem, middle)) ? high : low) = middle;
  }
  return {{std::string(kSlackWay), fmt::format("slack for a period of {} ps", high),
           [&entry, high](const Problem &given, const Capacities &) {
             return check(entry, given, {}).empty()
                        ? std::optional(wordsOf(entry, given, {{"per_link", Given(slackFor(given, high))}}))
                        : std::nullopt;
           }}};
}

Time costOf(const Problem &problem, const Stage &stage) {
  return stage.forward + problem.backwardTime(stage) + problem.weightTime(stage);
}

/// From a microbatch's first forward at a stage to the end of its backward there, by data alone.
std::vector<Time> roundTrips(const Problem &problem) {
  const auto count = static_cast<int32_t>(problem.stages.size());
  std::vector<Time> trips(size_t(count), 0);
  Time below = 0;
  for (int32_t s = count; s-- > 0;) {
    const Stage &stage = problem.stages[size_t(s)];
    if (s + 1 < count)
      below += problem.handOver(s, s + 1) + problem.handOver(s + 1, s);
    below += stage.forward + problem.backwardTime(stage);
    trips[size_t(s)] = below;
  }
  return trips;
}

} // namespace

std::vector<int32_t> sharesOf(const Problem &problem, const Capacities &capacities) {
  if (capacities.empty() || problem.stages.size() == size_t(problem.ranks))
    return {};
  const std::vector<Time> trips = roundTrips(problem);
  std::vector<int32_t> shares(problem.stages.size(), 1);
  const auto stagesByRank = problem.stagesByRank();
  for (size_t r = 0; r < stagesByRank.size(); ++r) {
    const auto held = [&](int32_t s) {
      return __int128(problem.stages[size_t(s)].activation) + problem.stages[size_t(s)].context;
    };
    __int128 left = capacities[r];
    for (const int32_t s : stagesByRank[r])
      left -= held(s);
    // One microbatch more at a time goes to the stage that holds longest, over how many it may have already.
    std::vector<int32_t> open = stagesByRank[r];
    while (!open.empty()) {
      const auto next = std::max_element(open.begin(), open.end(), [&](int32_t x, int32_t y) {
        return __int128(trips[size_t(x)]) * shares[size_t(y)] < __int128(trips[size_t(y)]) * shares[size_t(x)];
      });
      if (held(*next) > left || shares[size_t(*next)] >= problem.microbatches) {
        open.erase(next);
      } else {
        left -= held(*next);
        ++shares[size_t(*next)];
      }
    }
  }
  return shares;
}

namespace {

std::vector<Policy> allPolicies(const Problem &problem, const Capacities &capacities) {
  const bool single = problem.stages.size() == size_t(problem.ranks);
  std::vector<std::pair<int32_t, int32_t>> flights = {{0, 0}};
  if (single)
    for (const auto &flight : {std::pair(100, 100), std::pair(100, 200), std::pair(100, 150), std::pair(200, 100)})
      flights.push_back(flight);
  const std::vector<int32_t> shares = sharesOf(problem, capacities);
  std::vector<Policy> result;
  for (const int32_t most : {1 << 30, 2, 0, 1})
    for (const int32_t patience : {0, 100, 50, 25, 75})
      for (const int32_t weightPatience : {0, 100, 50})
        for (const Policy::First first : {Policy::First::Backward, Policy::First::Forward, Policy::First::Alternate})
          for (const bool limited : {true, false})
            for (const bool deepest : {true, false})
              for (const auto &[base, slope] : flights) {
                if ((single && !deepest) || (limited && shares.empty()))
                  continue;
                Policy policy;
                policy.first = first;
                policy.patience = patience;
                policy.weightPatience = weightPatience;
                policy.mostWeights = most;
                policy.deepest = deepest;
                policy.base = base;
                policy.slope = slope;
                if (limited)
                  policy.mostOfStage = shares;
                result.push_back(std::move(policy));
              }
  return result;
}

Candidate listed(std::string way, std::string name, Policy policy) {
  return {std::move(way), std::move(name),
          [policy = std::move(policy)](const Problem &given, const Capacities &capacity) {
            return listSchedule(given, capacity, policy);
          },
          true};
}

std::vector<Candidate> lists(const Problem &problem, const Capacities &capacities) {
  std::vector<Candidate> result;
  const std::vector<int32_t> shares = sharesOf(problem, capacities);
  for (const ListWay &way : listWays(problem.stages.size() == size_t(problem.ranks))) {
    Policy policy = way.policy;
    if (way.inShares)
      policy.mostOfStage = shares;
    result.push_back(listed(nameOf(way), nameOf(way), std::move(policy)));
  }
  for (Policy &policy : allPolicies(problem, capacities))
    result.push_back(
        listed(std::string(kOtherListsWay), fmt::format("list schedule {}", result.size()), std::move(policy)));
  return result;
}

std::vector<Candidate> woven(const Problem &problem, const Capacities &capacities) {
  std::vector<Candidate> result;
  if (capacities.empty() || problem.stages.size() == size_t(problem.ranks)) // list scheduling does as well
    return result;
  for (const WeaveOptions &way : weaveWays())
    result.push_back({nameOf(way), nameOf(way),
                      [way](const Problem &given, const Capacities &capacity) { return weave(given, capacity, way); }});
  return result;
}

std::vector<Candidate> inRounds(const Capacities &capacities) {
  std::vector<Candidate> result;
  if (capacities.empty())
    return result;
  for (const RoundOptions &way : roundWays())
    result.push_back({nameOf(way), nameOf(way),
                      [way](const Problem &given, const Capacities &capacity) { return rounds(given, capacity, way); },
                      true});
  return result;
}

bool fits(const Problem &problem, const Block &block, const Capacities &capacities) {
  if (capacities.empty())
    return true;
  const std::vector<__int128> peaks = steadyPeaks(problem, block);
  for (size_t r = 0; r < peaks.size(); ++r)
    if (peaks[r] > capacities[r])
      return false;
  return true;
}

Candidate blockOf(Block block, std::string_view way, std::string name) {
  return {std::string(way), std::move(name),
          [block = std::move(block)](const Problem &problem, const Capacities &) {
            return check(problem, block).empty() ? std::optional(repeat(problem, block)) : std::nullopt;
          },
          true};
}

/// Blocks of `shape`, the problem or its copy with equal slots, for intervals from the work of the busiest rank on.
void addBlocks(const Problem &problem, const Problem &shape, const Capacities &capacities, Time work, Time step,
               int32_t intervals, Time extraDown, Time extraUp, std::string_view way, std::string_view roomyWay,
               std::vector<Candidate> &result) {
  constexpr int32_t kExtras = 6, kWithExtras = 6;
  int64_t left = 1'000'000; // passes to lay
  int32_t feasible = 0;
  const auto offer = [&](Time interval, Time down, Time up) {
    if (left <= 0)
      return false;
    left -= 3 * int64_t(shape.stages.size());
    std::optional<Block> block =
        moduloBlock(shape, {.interval = interval, .extraDown = down, .extraUp = up, .weightAtOnce = false});
    if (!block || !fits(problem, *block, capacities))
      return false;
    result.push_back(blockOf(std::move(*block), down + up == 0 ? way : roomyWay,
                             fmt::format("block of {} slots, {} + {} more a hop", interval, down, up)));
    return true;
  };
  for (int32_t i = 0; i < intervals && feasible < 2 * kWithExtras && left > 0; ++i) {
    const Time interval = work + i * step;
    const size_t before = result.size();
    const bool any = offer(interval, 0, 0); // with more room at the hops it holds more
    if (any && feasible < kWithExtras)
      for (int32_t down = kExtras; down-- > 0;)
        for (int32_t up = kExtras; up-- > 0;)
          if (down > 0 || up > 0)
            offer(interval, down * extraDown, up * extraUp);
    if (any) // the roomiest first
      std::rotate(result.begin() + std::ptrdiff_t(before), result.begin() + std::ptrdiff_t(before) + 1, result.end());
    feasible += any;
  }
}

std::vector<Candidate> blocks(const Problem &problem, const Capacities &capacities) {
  std::vector<Candidate> result;
  Problem equal = problem;
  equal.link = {};
  equal.links.clear();
  std::vector<Time> work(size_t(problem.ranks), 0), slots(size_t(problem.ranks), 0);
  Time longest = 0;
  for (size_t s = 0; s < equal.stages.size(); ++s) {
    Stage &stage = equal.stages[s];
    work[size_t(problem.rankOf[s])] += std::max<Time>(costOf(problem, stage), 3);
    slots[size_t(problem.rankOf[s])] += 3;
    longest = std::max({longest, stage.forward, stage.backwardInput});
    stage.forward = stage.backwardInput = stage.backwardWeight = 1;
    stage.backward = 2;
  }
  const Time most = *std::max_element(work.begin(), work.end());
  addBlocks(problem, equal, capacities, *std::max_element(slots.begin(), slots.end()), 1, 40, 1, 1, kSlotsWay,
            kRoomySlotsWay, result);
  addBlocks(problem, problem, capacities, most, std::max<Time>(most / 64, 1), 256, std::max<Time>(longest / 4, 1),
            std::max<Time>(longest / 4, 1), kTimedWay, kRoomyTimedWay, result);
  return result;
}

} // namespace

std::vector<Candidate> candidatesOf(const Problem &problem, const Capacities &capacities) {
  std::vector<Candidate> result = published(problem);
  for (Candidate &each : slacks(problem, capacities))
    result.push_back(std::move(each));
  if (!capacities.empty() && isFolded(problem))
    if (std::optional<Block> block = foldedBlock(problem, capacities))
      result.push_back(blockOf(std::move(*block), kFoldedWay, "folded block"));
  std::vector<Candidate> listed = lists(problem, capacities), laid = woven(problem, capacities),
                         built = blocks(problem, capacities), turning = inRounds(capacities);
  for (size_t i = 0; i < std::max({listed.size(), 2 * laid.size(), built.size(), turning.size()}); ++i) {
    if (i < listed.size())
      result.push_back(std::move(listed[i]));
    if (i % 2 == 0 && i / 2 < laid.size()) // laying takes longest
      result.push_back(std::move(laid[i / 2]));
    if (i < turning.size())
      result.push_back(std::move(turning[i]));
    if (i < built.size())
      result.push_back(std::move(built[i]));
  }
  return result;
}

} // namespace pipec::schedule
