// From one segment to the next.
#include "runtime/device/Stream.h"

namespace pipec::runtime {

Walk::Walk(const Stream &stream, int64_t n) {
  size_t which = 0;
  for (; which < stream.segments.size(); ++which) {
    int64_t executed = int64_t(stream.segments[which].count) * stream.segments[which].trips;
    if (n < executed)
      break;
    n -= executed;
  }
  *this = at(stream, which);
  if (done())
    return;
  int64_t each = end - begin;
  round = n / each;
  item = begin + n % each;
}

Walk Walk::at(const Stream &stream, size_t segment) {
  Walk walk;
  walk.stream = &stream;
  walk.segment = segment;
  if (segment == stream.segments.size())
    return walk;
  const plan::Segment &of = stream.segments[segment];
  walk.item = walk.begin = stream.items.data() + of.first;
  walk.end = walk.begin + of.count;
  walk.trips = of.trips;
  return walk;
}

} // namespace pipec::runtime
