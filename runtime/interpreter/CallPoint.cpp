#include "runtime/interpreter/CallPoint.h"

#include "runtime/simulate/Simulate.h"

#include <algorithm>

namespace pipec::runtime {

std::vector<CallPoint> callPoints(const plan::Variant &variant, plan::Time horizon) {
  struct Rank {
    std::vector<std::vector<plan::Time>> completed; // by queue, of its instructions in order
    plan::Time begin = INT64_MAX, end = 0;
  };
  std::vector<Rank> ranks(variant.programs.size());
  for (size_t r = 0; r < ranks.size(); ++r)
    ranks[r].completed.resize(variant.programs[r].queues.size());
  simulate::Options options;
  options.observe = [&](const simulate::Event &event) {
    Rank &rank = ranks[size_t(event.rank)];
    if (variant.programs[size_t(event.rank)].queues[event.queue].kind != plan::QueueKind::Device)
      return;
    rank.completed[event.queue].push_back(event.counted);
    rank.begin = std::min(rank.begin, event.start);
    rank.end = std::max(rank.end, event.counted);
  };
  simulate::Result result;
  std::vector<CallPoint> points(ranks.size());
  if (!simulate::simulate(variant, options, result).ok())
    return points;
  for (size_t r = 0; r < ranks.size(); ++r) {
    const Rank &rank = ranks[r];
    CallPoint &point = points[r];
    point.rest = rank.end - std::min(rank.begin, rank.end);
    for (uint32_t q = 0; q < rank.completed.size(); ++q) {
      const std::vector<plan::Time> &times = rank.completed[q];
      const auto after = std::upper_bound(times.begin(), times.end(), rank.end - horizon);
      if (after != times.begin() && rank.end - after[-1] < point.rest)
        point = {q, after - times.begin(), rank.end - after[-1]};
    }
  }
  return points;
}

} // namespace pipec::runtime
