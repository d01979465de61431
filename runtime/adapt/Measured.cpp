#include "runtime/adapt/Measured.h"

namespace pipec::adapt {

bool isPossible(const Sample &sample, int32_t ranks, int32_t shards) {
  const Tally &tally = sample.tally;
  const auto isRank = [&](int32_t rank) { return rank >= 0 && rank < ranks; };
  const bool ofProcess = sample.to == -1 && sample.from >= 0 && sample.from < ranks * shards;
  return (ofProcess || (isRank(sample.from) && isRank(sample.to) && sample.to != sample.from)) && tally.count > 0 &&
         tally.least >= 0 && tally.greatest >= tally.least && tally.sum >= tally.greatest && tally.planned >= 0 &&
         tally.bytes >= 0;
}

std::vector<Slice> Measured::report(Time now) {
  std::vector<Slice> slices(kSlices);
  const Time length = std::max<Time>(now - reported, kSlices);
  for (int s = 0; s != kSlices; ++s) {
    slices[size_t(s)].begin = reported + length * s / kSlices;
    slices[size_t(s)].end = reported + length * (s + 1) / kSlices;
  }
  std::vector<Sample> later;
  for (Sample &each : samples) {
    if (each.end > now) {
      later.push_back(std::move(each));
      continue;
    }
    const auto at = size_t(std::clamp<Time>((each.end - reported) * kSlices / length, 0, kSlices - 1));
    Tally &tally = each.to < 0 ? slices[at].ranks[each.from] : slices[at].links[{each.from, each.to}];
    tally.add(each.tally);
  }
  samples = std::move(later);
  reported = now;
  return slices;
}

} // namespace pipec::adapt
