// Transfers over links with changing bandwidths, in whole numbers: a byte has 10^12 parts, so a link of r bytes per
// second passes r parts in each picosecond.
#include "runtime/simulate/Scenario.h"

#include <algorithm>
#include <optional>

namespace pipec::simulate {

using plan::Bytes;
using plan::Time;

using Wide = unsigned __int128;

/// The last time up to `time` at which the stretches began again.
static Time beginOf(const Scenario::Link &link, Time time) { return link.repeat == 0 ? 0 : time - time % link.repeat; }

static size_t stretchAt(const Scenario::Link &link, Time time) {
  const std::vector<Scenario::Stretch> &all = link.stretches;
  auto after = std::upper_bound(all.begin(), all.end(), time - beginOf(link, time),
                                [](Time value, const Scenario::Stretch &stretch) { return value < stretch.at; });
  return after == all.begin() ? 0 : size_t(after - all.begin()) - 1;
}

/// The parts that pass in one period of the stretches; nothing if a stretch is unlimited.
static std::optional<Wide> partsOfRound(const Scenario::Link &link) {
  Wide parts = 0;
  for (size_t s = 0; s != link.stretches.size(); ++s) {
    const Scenario::Stretch &own = link.stretches[s];
    if (own.bandwidth == 0)
      return std::nullopt;
    const Time end = s + 1 == link.stretches.size() ? link.repeat : link.stretches[s + 1].at;
    parts += Wide(own.bandwidth) * Wide(end - own.at);
  }
  return parts;
}

Time wireEnd(const Scenario::Link &link, Bytes bytes, Time start) {
  // At most 2^60 × 10^12 < 2^100 parts; what a stretch passes is below 2^60 × 2^63.
  Wide parts = Wide(bytes) * 1'000'000'000'000u;
  Time at = std::max<Time>(start, 0), begin = beginOf(link, at);
  const std::vector<Scenario::Stretch> &all = link.stretches;
  for (size_t s = stretchAt(link, at); at < kNever;) {
    if (parts == 0 || all[s].bandwidth == 0)
      return at;
    auto rate = Wide(all[s].bandwidth);
    const bool lastsForEver = s + 1 == all.size() && link.repeat == 0;
    const Time end = lastsForEver ? kNever : begin + (s + 1 == all.size() ? link.repeat : all[s + 1].at);
    Wide passes = rate * Wide(end - at);
    if (lastsForEver || passes >= parts) {
      Wide takes = (2 * parts + rate) / (2 * rate);
      return Time(std::min<Wide>(Wide(at) + takes, Wide(kNever)));
    }
    parts -= passes;
    at = end;
    if (++s != all.size())
      continue;
    // Whole periods at once: there may be many.
    s = 0;
    if (const std::optional<Wide> round = partsOfRound(link); round && *round != 0) {
      const Wide rounds = std::min<Wide>((parts - 1) / *round, Wide(kNever - at) / Wide(link.repeat));
      parts -= rounds * *round;
      at += Time(rounds) * link.repeat;
    }
    begin = at;
  }
  return kNever;
}

Scenario::Passage Scenario::transfer(int32_t from, int32_t to, const plan::Operation &operation, Time start) const {
  Passage passage;
  auto named = links.find({from, to});
  const Link *link = named != links.end() ? &named->second : others ? &*others : nullptr;
  if (link) {
    passage.end = wireEnd(*link, operation.bytes, start);
    passage.arrival = passage.end + link->stretches[stretchAt(*link, passage.end)].latency;
  } else {
    passage.end = start + operation.cost;
    passage.arrival = passage.end + operation.latency;
  }
  passage.lost = !cuts.empty() && passage.arrival > cutAt(from, to);
  return passage;
}

Time Scenario::exchangeEnd(const plan::Operation &operation, Time start) const {
  if (!replicas || plan::isOfShared(operation))
    return start + operation.cost;
  const int32_t half = degree - 1, hops = operation.kind == plan::Kind::AllReduce ? 2 * half : half;
  const Bytes share = (operation.bytes + degree - 1) / degree;
  for (int32_t hop = 0; hop < hops && start < kNever; ++hop) {
    const Time end = wireEnd(*replicas, share, start);
    start = std::min(end + replicas->stretches[stretchAt(*replicas, end)].latency, kNever);
  }
  return start;
}

/// The slowdown of a shard, or with -1 of the whole rank, at a time; null: none.
static const Scenario::Slow *slowAt(const Scenario &scenario, int32_t rank, int32_t shard, Time time) {
  const auto found = scenario.slow.find(rank);
  if (found == scenario.slow.end())
    return nullptr;
  for (const Scenario::Slow &each : found->second)
    if (each.at <= time && time < each.until && (each.shard == -1 || each.shard == shard))
      return &each;
  return nullptr;
}

/// `start` + `time` × by / over, rounded half up. Times are below 2^60, the factors below 2^31.
static Time endOf(Time start, Time time, int64_t by, int64_t over) {
  const Wide takes = (2 * Wide(time) * Wide(by) + Wide(over)) / (2 * Wide(over));
  return Time(std::min<Wide>(Wide(std::max<Time>(start, 0)) + takes, Wide(kNever)));
}

Time Scenario::computeEnd(int32_t rank, Time start, Time cost) const {
  return ownEnd(rank, -1, plan::Own::kWhole, start, cost);
}

Time Scenario::ownEnd(int32_t rank, int32_t shard, int64_t factor, Time start, Time time) const {
  const Slow *own = slow.empty() ? nullptr : slowAt(*this, rank, shard, start);
  if (!own)
    return std::min(std::max<Time>(start, 0) + time, kNever);
  if (own->shard == -1)
    return endOf(start, time, own->percent, 100);
  return endOf(start, time, own->percent * (plan::Own::kWhole / 100), factor);
}

Time Scenario::cutAt(int32_t a, int32_t b) const {
  auto found = cuts.find(std::minmax(a, b));
  return found == cuts.end() ? kNever : found->second;
}

} // namespace pipec::simulate
