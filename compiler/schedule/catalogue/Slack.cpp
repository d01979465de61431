// Per-link slack (generalises the warm-up of 1F1B and of Ada-Grouper's kFkB, arXiv 2303.01675): rank r of p runs
// w(r) = 1 + the slack of all links below it forwards, then one backward and one forward in turn. A slack of 1 a link
// is 1F1B; each one more buys a link the time of a microbatch for its transfers, and memory is paid on the ranks above
// it alone. A split W stands directly after its B.
//
// Its steady period is the largest of three: the busiest rank's work; the longest transfer; and, for ranks i <= e, what
// F of i, down to F of e, and its B back up to B of i takes, for w(i) - w(e) + 1 microbatches: rank e runs that B
// w(e) - 1 microbatches after the F, rank i the next F w(i) microbatches after the B.
#include "compiler/schedule/catalogue/Entries.h"
#include "compiler/schedule/evaluate/Buffers.h"

#include <algorithm>
#include <fmt/format.h>

namespace pipec::schedule {

namespace {

constexpr const char *kPerLink = "per_link";

Words wordsWith(const Problem &problem, const std::vector<int64_t> &slack) {
  Words words(static_cast<size_t>(problem.ranks));
  int64_t warmUp = 1;
  for (int32_t rank = problem.ranks; rank-- > 0;) {
    warmUp = std::min(warmUp + (rank + 1 < problem.ranks ? slack[size_t(rank)] : 0), int64_t(problem.microbatches));
    words[static_cast<size_t>(rank)] = oneByOne(problem, rank, warmUp);
  }
  return words;
}

Words slackWords(const Problem &problem, const Parameters &parameters) {
  const auto given = parameters.find(kPerLink);
  return wordsWith(problem,
                   given == parameters.end() ? slackFor(problem, leastSlackPeriod(problem)) : given->second.values);
}

std::string slackRefuses(const Problem &problem, const Parameters &parameters) {
  const auto given = parameters.find(kPerLink);
  if (given == parameters.end() || given->second.values.size() == size_t(problem.ranks) - 1)
    return {};
  return fmt::format("schedule 'slack' takes a number for each link between neighbouring ranks as per_link, {} on {} "
                     "ranks; found {}",
                     problem.ranks - 1, problem.ranks, given->second.values.size());
}

} // namespace

Time leastSlackPeriod(const Problem &problem) {
  Time period = 1;
  const auto wire = [&](int32_t from, int32_t to) { // a link holds one transfer at a time; latency is no part of that
    return wireTime(problem.bytesBetween(from, to),
                    problem.linkBetween(problem.rankOf[size_t(from)], problem.rankOf[size_t(to)]).bandwidth);
  };
  for (size_t s = 0; s < problem.stages.size(); ++s) {
    const Stage &stage = problem.stages[s];
    period = std::max(period, stage.forward + problem.backwardTime(stage) + problem.weightTime(stage));
    if (const auto own = int32_t(s); s + 1 < problem.stages.size())
      period = std::max({period, wire(own, own + 1), wire(own + 1, own)});
  }
  return period;
}

std::vector<int64_t> slackFor(const Problem &problem, Time period) {
  // w(i) is the least with w(i) >= w(i+1) + 1 and, for each e > i, (w(i) - w(e) + 1) period >= the way from i to e and
  // back. That way is A(i) - A(e) + F(e) + B(e) and i's W, where A(i) adds up passes and transfers from rank i on; so
  // of all e the one with the largest (w(e) - 1) period - A(e) + F(e) + B(e) decides.
  const auto count = static_cast<int32_t>(problem.stages.size());
  std::vector<int64_t> slack(size_t(count) - 1, 1);
  __int128 onwards = 0, largest = 0;
  int64_t warmUp = 1;
  for (int32_t i = count; i-- > 0;) {
    const Stage &stage = problem.stages[size_t(i)];
    const __int128 own = __int128(stage.forward) + problem.backwardTime(stage);
    onwards += own;
    if (i + 1 < count) {
      onwards += __int128(problem.handOver(i, i + 1)) + problem.handOver(i + 1, i);
      const __int128 weight = problem.weightTime(stage);
      const __int128 least = (largest + onwards + weight + period - 1) / period;
      slack[size_t(i)] = static_cast<int64_t>(std::clamp<__int128>(least - warmUp, 1, problem.microbatches));
      warmUp += slack[size_t(i)];
    }
    const __int128 from = __int128(warmUp - 1) * period - onwards + own;
    largest = i + 1 == count ? from : std::max(largest, from);
  }
  return slack;
}

std::optional<std::vector<int64_t>> slackWithin(const Problem &problem, Time period) {
  const auto fits = [&](const std::vector<int64_t> &slack) {
    return problem.memoryLimit == 0 || excessOf(problem, wordsWith(problem, slack)) <= 0;
  };
  Time low = period, high = low;
  std::vector<int64_t> best = slackFor(problem, low);
  const std::vector<int64_t> least(best.size(), 1);
  while (!fits(best)) {
    if (best == least)
      return std::nullopt;
    low = high;
    high *= 2;
    best = slackFor(problem, high);
  }
  while (high - low > std::max<Time>(low / 1000, 1)) {
    const Time middle = low + (high - low) / 2;
    std::vector<int64_t> slack = slackFor(problem, middle);
    if (fits(slack)) {
      high = middle;
      best = std::move(slack);
    } else {
      low = middle;
    }
  }
  return best;
}

Entry slack() {
  return {.name = "slack",
          .aliases = {},
          .defaultBackward = BackwardMode::Fused,
          .allowsFused = true,
          .allowsSplit = true,
          .stagesPerRank = 1,
          .placement = "loop",
          .source = "generalises Ada-Grouper's kFkB, arXiv 2303.01675, and 1F1B: warm-up bought per link",
          .bubble = "(p-1)(F+B+W) + transfers; none repeats on links of slack D where (D-1)(F+B+W) >= 2c",
          .memory = "min(m, 1 + the slack of all links from rank r on) microbatches on rank r",
          .parameters = {{kPerLink, 1,
                          "warm-up forwards of each link, one a pair of neighbouring ranks (default: the fewest that "
                          "hide its transfers)",
                          true}},
          .words = slackWords,
          .refuses = slackRefuses};
}

} // namespace pipec::schedule
