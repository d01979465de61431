// Chooses the track of the trace on which an event is drawn. Slices of one track must nest in Perfetto, but events of
// one queue may overlap: a receive ends a latency after its queue has gone on. So a queue has as many lanes as events
// overlap at once; an event takes the first lane that is free when it starts. Lane 0 of queue q is thread q; lane n is
// thread q + n * stride, named "recv from 2 (2)" and so on, and drawn below its queue.
#pragma once

#include "runtime/trace/Trace.h"

#include <map>

namespace pipec::trace {

struct Track {
  uint32_t queue = 0;
  uint32_t lane = 0;
  auto operator<=>(const Track &) const = default;
};

class Tracks {
public:
  explicit Tracks(const std::vector<Event> &events);

  /// The track of events[i].
  Track of(size_t i) const { return tracks[i]; }
  /// Rank → its tracks in use, each once.
  const std::map<int32_t, std::vector<Track>> &used() const { return byRank; }
  int64_t thread(Track track) const { return track.queue + int64_t(track.lane) * stride; }

private:
  std::vector<Track> tracks;
  std::map<int32_t, std::vector<Track>> byRank;
  int64_t stride = 1000; // more than any queue's number
};

} // namespace pipec::trace
