#include "runtime/interpreter/CallPoint.h"

#include "runtime/simulate/Steps.h"

#include <algorithm>

namespace pipec::runtime {

std::vector<CallPoint> callPoints(const plan::Variant &variant, plan::Time horizon) {
  struct Process {
    std::vector<std::vector<plan::Time>> completed; // by queue, of its instructions in order
    plan::Time begin = INT64_MAX, end = 0;
    plan::Time next = INT64_MAX; // when the next step begins, where its forwards go before updates
  };
  std::vector<Process> places(variant.places());
  for (size_t p = 0; p < places.size(); ++p)
    places[p].completed.resize(variant.programOf(p).queues.size());
  simulate::Options options;
  options.observe = [&](const simulate::Event &event) {
    const size_t place = size_t(event.rank) * size_t(variant.shards()) + size_t(event.shard);
    Process &process = places[place];
    if (variant.programOf(place).queues[event.queue].kind != plan::QueueKind::Device)
      return;
    if (event.step > 0) {
      process.next = std::min(process.next, event.start);
      return;
    }
    process.completed[event.queue].push_back(event.counted);
    process.begin = std::min(process.begin, event.start);
    process.end = std::max(process.end, event.counted);
  };
  options.steps = simulate::overlaps(variant) ? 2 : 1;
  simulate::Result result;
  std::vector<CallPoint> points(places.size());
  if (!simulate::simulate(variant, options, result).ok())
    return points;
  for (size_t p = 0; p < places.size(); ++p) {
    Process &process = places[p];
    process.end = std::min(process.end, process.next);
    CallPoint &point = points[p];
    point.rest = process.end - std::min(process.begin, process.end);
    for (uint32_t q = 0; q < process.completed.size(); ++q) {
      const std::vector<plan::Time> &times = process.completed[q];
      const auto after = std::upper_bound(times.begin(), times.end(), process.end - horizon);
      if (after != times.begin() && process.end - after[-1] < point.rest)
        point = {q, after - times.begin(), process.end - after[-1]};
    }
  }
  return points;
}

} // namespace pipec::runtime
