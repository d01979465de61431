#include "runtime/adapt/Phase.h"

#include "runtime/adapt/Estimator.h"
#include "runtime/plan/Limits.h"

#include <vector>

namespace pipec::adapt {

void Phase::take(const StepReport &report) {
  slices.insert(slices.end(), report.slices.begin(), report.slices.end());
  while (slices.size() > kRemembered)
    slices.pop_front();
}

namespace {

using Wide = __int128;

/// How long a MiB took in each of so many equal parts of the time, less the mean, over all links; where no transfer
/// ended, as before.
std::vector<Wide> seriesOf(const std::deque<Slice> &slices, size_t parts) {
  constexpr Wide kMiB = 1 << 20;
  const Time begin = slices.front().begin, length = slices.back().end - begin;
  std::vector<Wide> series(parts);
  size_t at = 0;
  Wide last = 0, sum = 0;
  for (size_t i = 0; i != parts; ++i) {
    const Time moment = begin + Time(Wide(length) * Wide(2 * i + 1) / Wide(2 * parts));
    while (at + 1 != slices.size() && slices[at].end <= moment)
      ++at;
    Wide wire = 0, bytes = 0;
    for (const auto &[link, tally] : slices[at].links) {
      wire += tally.sum - tally.planned;
      bytes += tally.bytes;
    }
    last = bytes == 0 ? last : std::min<Wide>(wire * kMiB / bytes, limits::kTime);
    series[i] = last;
    sum += last;
  }
  for (Wide &each : series)
    each -= sum / Wide(parts);
  return series;
}

} // namespace

Time Phase::period() const {
  constexpr size_t kLeast = size_t(8) * kSlices;
  constexpr int64_t kWhole = 1000, kPlain = 500; // a correlation, in thousandths
  if (slices.size() < kLeast)
    return 0;
  const size_t parts = slices.size();
  std::vector<Wide> series = seriesOf(slices, parts);
  // Sums of squares stay in 128 bits.
  Wide most = 1;
  for (const Wide each : series)
    most = std::max({most, each, -each});
  for (Wide &each : series)
    each = each * (1 << 30) / most;
  // Of each lag; a period of less than a step cannot be used.
  const size_t least = kSlices;
  std::vector<int64_t> correlations(parts / 2 + 1, 0);
  int64_t highest = 0;
  for (size_t lag = least; lag <= parts / 2; ++lag) {
    Wide product = 0, one = 0, other = 0;
    for (size_t i = lag; i != parts; ++i) {
      product += series[i] * series[i - lag];
      one += series[i] * series[i];
      other += series[i - lag] * series[i - lag];
    }
    correlations[lag] = one == 0 || other == 0 ? 0 : int64_t(product * kWhole / std::max(one, other));
    highest = std::max(highest, correlations[lag]);
  }
  if (highest < kPlain)
    return 0;
  // The first peak that is about as high: its multiples are as good a match, and further back.
  for (size_t lag = least + 1; lag < parts / 2; ++lag)
    if (correlations[lag] * 10 >= highest * 9 && correlations[lag] >= correlations[lag - 1] &&
        correlations[lag] >= correlations[lag + 1])
      return Time(Wide(slices.back().end - slices.front().begin) * Wide(lag) / Wide(parts));
  return 0;
}

std::optional<simulate::Scenario> Phase::expected() const {
  const Time lag = period();
  if (lag == 0)
    return std::nullopt;
  const Time from = slices.back().end - lag;
  simulate::Scenario scenario;
  for (const Slice &slice : slices) {
    if (slice.end <= from)
      continue;
    for (const auto &[link, tally] : slice.links) {
      const simulate::Scenario::Stretch own = stretchOf(tally, std::max<Time>(slice.begin - from, 0));
      const auto [at, isNew] = scenario.links.try_emplace(link);
      if (isNew)
        at->second.stretches.push_back({0, own.bandwidth, own.latency});
      else if (own.at > at->second.stretches.back().at)
        at->second.stretches.push_back(own);
    }
  }
  return scenario;
}

} // namespace pipec::adapt
