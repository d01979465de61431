// From one segment to the next.
#include "runtime/device/Stream.h"

namespace pipec::runtime {

Walk::Walk(const Stream &stream, int64_t n) : stream(&stream) {
  size_t which = 0;
  for (; which < stream.segments.size(); ++which) {
    int64_t executed = int64_t(stream.segments[which].count) * stream.segments[which].trips;
    if (n < executed)
      break;
    n -= executed;
  }
  enter(which);
  if (done())
    return;
  int64_t each = end - begin;
  round = n / each;
  item = begin + n % each;
}

void Walk::enter(size_t which) {
  segment = which;
  item = nullptr;
  if (which == stream->segments.size())
    return;
  const plan::Segment &of = stream->segments[which];
  item = begin = stream->items.data() + of.first;
  end = begin + of.count;
  round = 0;
  trips = of.trips;
}

} // namespace pipec::runtime
