#include "compiler/schedule/exchange/Replicas.h"

namespace pipec::schedule {

Time CollectiveTime::of(Bytes bytes) const {
  constexpr __int128 kPicoseconds = 1'000'000'000'000;
  __int128 time = __int128(hops) * start;
  if (bandwidth > 0) {
    const __int128 divisor = __int128(parts) * bandwidth;
    time += (__int128(hops) * bytes * kPicoseconds + divisor / 2) / divisor;
  }
  return Time(std::min<__int128>(time, kLongest));
}

CollectiveTime CollectiveTime::half() const {
  return {(start + 1) / 2, Time(std::min<__int128>(__int128(bandwidth) * 2, INT64_MAX)), hops, parts};
}

CollectiveTimes ringOf(int32_t degree, const Link &link) {
  const CollectiveTime half{link.latency, link.bandwidth, degree - 1, degree};
  CollectiveTime whole = half;
  whole.hops = 2 * (degree - 1);
  return {whole, half, half};
}

std::vector<Time> sharedTimesOf(const Problem &problem, const Replicas &replicas) {
  const CollectiveTime &whole = replicas.times.allReduce;
  const bool isMeasured = whole.hops == 1 && whole.parts == 1; // else of a ring, whose link it names
  std::vector<Time> times;
  for (const SharedWeight &weight : problem.shared) {
    const Time time = isMeasured ? std::max(sharedSumTime(problem, weight), whole.of(weight.gradients))
                                 : sharedSumTime(problem, weight, replicas.degree, {whole.start, whole.bandwidth});
    times.push_back(std::min(time, kLongest));
  }
  return times;
}

Time normTimeOf(const Problem &problem, int32_t onEachRank, const Link &link) {
  constexpr Bytes kNorm = 8;
  const auto hop = [](const Link &each) { return __int128(wireTime(kNorm, each.bandwidth)) + each.latency; };
  __int128 slowest = onEachRank > 1 ? hop(link) : 0;
  for (int32_t rank = 0; problem.ranks > 1 && rank != problem.ranks; ++rank)
    slowest = std::max(slowest, hop(problem.linkBetween(rank, (rank + 1) % problem.ranks)));
  const __int128 processes = __int128(problem.ranks) * onEachRank;
  return Time(std::min<__int128>(2 * (processes - 1) * slowest, kLongest));
}

} // namespace pipec::schedule
