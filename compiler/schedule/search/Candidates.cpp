// The kinds of recipes: published schedules; list scheduling under policies; microbatches woven one by one; rounds of
// several microbatches; blocks of equal slots.
#include "compiler/schedule/search/Candidates.h"

#include "compiler/schedule/catalogue/Entries.h"
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

/// A candidate for each row of a table of ways, that makes its words by `make(problem, capacities, row)`.
template <typename Way, typename Make>
std::vector<Candidate> candidatesOf(std::span<const Way> ways, bool placesWeights, Make make) {
  std::vector<Candidate> result;
  for (const Way &way : ways) {
    const std::string name = nameOf(way);
    result.push_back(
        {name, name,
         [way, make](const Problem &given, const Capacities &capacity) { return make(given, capacity, way); },
         placesWeights});
  }
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

/// Blocks as if all passes were equally long and hand-overs took no time, for intervals from the busiest rank's passes
/// on, with more and more room at each hop down and up the ranks. Their orders suit unequal passes too.
std::vector<Candidate> blocks(const Problem &problem, const Capacities &capacities) {
  constexpr int32_t kIntervals = 40, kRoomyIntervals = 6, kExtras = 6;
  Problem equal = problem;
  equal.link = {};
  equal.links.clear();
  std::vector<Time> slots(size_t(problem.ranks), 0);
  for (size_t s = 0; s < equal.stages.size(); ++s) {
    Stage &stage = equal.stages[s];
    slots[size_t(problem.rankOf[s])] += 3;
    stage.forward = stage.backwardInput = stage.backwardWeight = 1;
    stage.backward = 2;
    stage.recompute = 0;
  }
  const Time least = *std::max_element(slots.begin(), slots.end());
  std::vector<Candidate> result;
  int64_t left = 1'000'000; // passes to lay
  const auto offer = [&](Time interval, int32_t down, int32_t up) {
    left -= 3 * int64_t(equal.stages.size());
    std::optional<Block> block = moduloBlock(equal, {.interval = interval, .extraDown = down, .extraUp = up});
    if (!block || !fits(problem, *block, capacities))
      return false;
    result.push_back({std::string(kBlockWay), fmt::format("block of {} slots, {} + {} more a hop", interval, down, up),
                      [block = std::move(*block)](const Problem &given, const Capacities &) {
                        return check(given, block).empty() ? std::optional(repeat(given, block)) : std::nullopt;
                      },
                      true});
    return true;
  };
  int32_t feasible = 0;
  for (Time interval = least; interval < least + kIntervals && feasible < 2 * kRoomyIntervals && left > 0; ++interval) {
    const size_t before = result.size();
    if (!offer(interval, 0, 0)) // with more room at the hops it holds more
      continue;
    for (int32_t down = kExtras; feasible < kRoomyIntervals && down-- > 0;)
      for (int32_t up = kExtras; up-- > 0 && left > 0;)
        if (down > 0 || up > 0)
          offer(interval, down, up);
    std::rotate(result.begin() + std::ptrdiff_t(before), result.begin() + std::ptrdiff_t(before) + 1, result.end());
    ++feasible; // the roomiest first
  }
  return result;
}

} // namespace

std::vector<Candidate> candidatesOf(const Problem &problem, const Capacities &capacities) {
  std::vector<Candidate> result = published(problem);
  for (Candidate &each : slacks(problem, capacities))
    result.push_back(std::move(each));
  const bool single = problem.stages.size() == size_t(problem.ranks);
  std::vector<Candidate> listed = candidatesOf(listWays(single), true, listSchedule),
                         built = blocks(problem, capacities), laid, turning;
  if (!capacities.empty())
    turning = candidatesOf(roundWays(), true, rounds);
  if (!capacities.empty() && !single) // with one stage a rank list scheduling does as well
    laid = candidatesOf(weaveWays(), false, weave);
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
