#include "runtime/adapt/Estimator.h"

namespace pipec::adapt {

using simulate::Scenario;

/// Of transfers that carry something and take longer than their latency.
Scenario::Stretch stretchOf(const Tally &tally, Time at) {
  constexpr __int128 kSecond = 1'000'000'000'000;
  const Time wire = tally.sum - tally.planned, latency = tally.planned / tally.count;
  if (tally.bytes == 0 || wire <= 0)
    return {at, 0, latency};
  const __int128 bandwidth = (tally.bytes * kSecond + wire / 2) / wire;
  return {at, int64_t(std::clamp<__int128>(bandwidth, 1, INT64_MAX)), latency};
}

void Estimator::take(const StepReport &report) {
  std::map<int32_t, Tally> ranks;
  for (const Slice &slice : report.slices) {
    for (const auto &[link, tally] : slice.links) {
      const Scenario::Stretch own = stretchOf(tally, 0);
      known[link] = {own.latency, own.bandwidth, known[link].samples + tally.count, tally.greatest - tally.least,
                     slice.begin};
    }
    for (const auto &[rank, tally] : slice.ranks)
      ranks[rank].add(tally);
  }
  for (const auto &[rank, tally] : ranks)
    if (tally.planned > 0)
      knownRanks[rank] = {int64_t((__int128(tally.sum) * 100 + tally.planned / 2) / tally.planned),
                          knownRanks[rank].samples + tally.count, report.slices.front().begin};
}

Scenario Estimator::during(const StepReport &report) const {
  Scenario scenario = lately(report, 0);
  if (report.slices.empty())
    return scenario;
  const Time begin = report.slices.front().begin, repeat = report.slices.back().end - begin;
  for (auto &[link, all] : scenario.links) {
    std::vector<Scenario::Stretch> stretches;
    for (const Slice &slice : report.slices)
      if (const auto found = slice.links.find(link); found != slice.links.end())
        stretches.push_back(stretchOf(found->second, slice.begin - begin));
    if (stretches.empty())
      continue;
    stretches.front().at = 0; // what was before the first transfer, nobody knows
    all.stretches = std::move(stretches);
    all.repeat = all.stretches.size() > 1 && all.stretches.back().at < repeat ? repeat : 0;
  }
  return scenario;
}

Scenario Estimator::lately(const StepReport &report, int slices) const {
  Scenario scenario;
  std::map<std::pair<int32_t, int32_t>, Tally> last;
  for (size_t s = report.slices.size() - std::min(report.slices.size(), size_t(slices)); s != report.slices.size(); ++s)
    for (const auto &[link, tally] : report.slices[s].links)
      last[link].add(tally);
  for (const auto &[link, estimate] : known) {
    const auto found = last.find(link);
    scenario.links[link] = {found != last.end() ? stretchOf(found->second, 0)
                                                : Scenario::Stretch{0, estimate.bandwidth, estimate.latency}};
  }
  for (const auto &[rank, estimate] : knownRanks)
    if (shards > 1) // also of one that is not slow: the plan may say that it is
      scenario.slow[rank / shards].push_back({0, simulate::kNever, estimate.percent, rank % shards});
    else if (estimate.percent != 100)
      scenario.slow[rank] = {{0, simulate::kNever, estimate.percent}};
  return scenario;
}

} // namespace pipec::adapt
