// From one segment to the next; single instructions.
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

std::shared_ptr<const Round> single(const Label &label, Slot in, Slot out) {
  struct Single {
    Slot in, out;
    Stream stream;
    Round round;
  };
  auto made = std::make_shared<Single>();
  made->in = in;
  made->out = out;
  made->stream.items.push_back({label.operation, &made->in, &made->out, 0, 0, 0, int32_t(label.microbatch), 0});
  made->stream.segments.push_back({0, 1, 1});
  made->stream.executed = 1;
  made->round.whole = &made->stream;
  made->round.step = label.step;
  made->round.epoch = label.epoch;
  made->round.evaluation = label.evaluation;
  return {made, &made->round};
}

} // namespace pipec::runtime
