// Events → tracks, in the order of their starts, so that the same events always get the same lanes.
#include "runtime/trace/Tracks.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace pipec::trace {

Tracks::Tracks(const std::vector<Event> &events) : tracks(events.size()) {
  std::vector<size_t> order(events.size());
  std::iota(order.begin(), order.end(), size_t(0));
  const auto key = [&](size_t i) {
    return std::tuple(events[i].rank, events[i].queue, events[i].start, events[i].end, i);
  };
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });

  std::vector<plan::Time> ends; // of each lane of the queue at hand
  for (size_t n = 0; n < order.size(); ++n) {
    const Event &event = events[order[n]];
    if (n == 0 || events[order[n - 1]].rank != event.rank || events[order[n - 1]].queue != event.queue)
      ends.clear();
    const auto free = std::find_if(ends.begin(), ends.end(), [&](plan::Time end) { return end <= event.start; });
    const Track track{event.queue, uint32_t(free - ends.begin())};
    if (free == ends.end()) {
      ends.push_back(event.end);
      byRank[event.rank].push_back(track);
    } else {
      *free = event.end;
    }
    tracks[order[n]] = track;
    while (stride <= int64_t(event.queue))
      stride *= 10;
  }
}

} // namespace pipec::trace
