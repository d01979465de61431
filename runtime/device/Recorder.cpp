// Step times, lateness and trace events of a queue.
#include "runtime/device/Recorder.h"

#include <cstdlib>
#include <new>
#include <numeric>
#include <sys/mman.h>

namespace pipec::runtime {

static double middleOf(size_t bucket) {
  if (bucket < 16)
    return double(bucket);
  unsigned shift = unsigned(bucket / 16) - 1;
  return (double(16 + bucket % 16) + 0.5) * double(uint64_t(1) << shift);
}

int64_t Lateness::count() const { return std::accumulate(buckets.begin(), buckets.end(), int64_t(0)); }

void Lateness::merge(const Lateness &other) {
  for (size_t b = 0; b < kBuckets; ++b)
    buckets[b] += other.buckets[b];
  sum += other.sum;
  largest = std::max(largest, other.largest);
}

double Lateness::mean() const {
  int64_t total = count();
  return total == 0 ? 0 : double(kUnit) * double(sum) / double(total);
}

double Lateness::quantile(double part) const {
  double seen = 0, total = double(count());
  for (size_t b = 0; b < kBuckets; ++b) {
    seen += double(buckets[b]);
    if (buckets[b] > 0 && seen >= part * total)
      return std::min(double(kUnit) * middleOf(b), double(largest));
  }
  return 0;
}

std::vector<int64_t> Lateness::pack() const {
  size_t filled = kBuckets;
  while (filled > 0 && buckets[filled - 1] == 0)
    --filled;
  std::vector<int64_t> packed{sum, largest};
  packed.insert(packed.end(), buckets.begin(), buckets.begin() + ptrdiff_t(filled));
  return packed;
}

Lateness Lateness::unpack(const std::vector<int64_t> &packed) {
  Lateness result;
  if (packed.size() < 2 || packed.size() > 2 + kBuckets)
    return result;
  result.sum = packed[0];
  result.largest = packed[1];
  std::copy(packed.begin() + 2, packed.end(), result.buckets.begin());
  return result;
}

void Recorder::begin(const std::shared_ptr<const Round> &round, const Stream &stream) {
  if (const int64_t own = round->evaluation > 0 ? -1 : round->step; own != step) {
    settle();
    step = own;
    first = INT64_MAX;
    last = INT64_MIN;
  }
  if (trace && step >= 0)
    stretches.push_back({times.size(), round, &stream});
}

void Recorder::Log::grow() {
  const size_t more = blocks.empty() ? kFirst : kBlock;
  const size_t bytes = more * sizeof(Times);
  void *block = std::aligned_alloc(bytes, bytes);
  if (!block)
    throw std::bad_alloc();
  if (more == kBlock)
    madvise(block, bytes, MADV_HUGEPAGE); // a wish
  place = static_cast<Times *>(block);
  end = place + more;
  blocks.emplace_back(place, [](Times *old) { std::free(old); });
  room += more;
}

void Recorder::settle() {
  if (!device || step < 0 || first > last)
    return;
  if (steps.size() <= size_t(step))
    steps.resize(size_t(step) + 1);
  steps[size_t(step)] = {std::min(first, steps[size_t(step)].firstStart), std::max(last, steps[size_t(step)].lastEnd)};
}

trace::Event Recorder::eventOf(const Round &round, const Walk &walk, size_t number) const {
  const plan::Operation op =
      round.variant ? plan::operationOf(*round.variant, placeIn(place), *walk.at().operation) : *walk.at().operation;
  const Times &when = times[number];
  const auto &[took, waited] = number < parts.size() ? parts[number] : std::pair<plan::Time, plan::Time>();
  return {place.world(),
          queue,
          op.kind,
          op.of,
          op.stage,
          op.peer,
          walk.microbatch(),
          round.step,
          round.epoch,
          when.start,
          when.end,
          plan::Bytes(plan::takenBy(op)),
          plan::Bytes(plan::freedBy(op)),
          0,
          trace::scopeOf(op),
          took,
          waited};
}

void Recorder::logPiece(int64_t ofStep, plan::Time start, plan::Time end, int64_t atoms, size_t queues) {
  if (trace)
    pieces.push_back(trace::pieceOf(place.world(), queues, ofStep, start, end, atoms));
}

void Recorder::clearEvents() {
  times = Log();
  pieces.clear();
  parts.clear();
  stretches.clear();
}

std::vector<trace::Event> Recorder::events() const {
  std::vector<trace::Event> all = pieces;
  all.reserve(pieces.size() + times.size());
  for (size_t s = 0; s < stretches.size(); ++s) {
    const Stretch &stretch = stretches[s];
    size_t n = stretch.first, end = s + 1 < stretches.size() ? stretches[s + 1].first : times.size();
    int inPair = 0; // so many more of an overlapped pair, both of which begin with it
    plan::Time begin = 0;
    for (Walk walk(*stretch.stream); n < end && !walk.done(); ++n, walk.next()) {
      if (plan::isHeader(walk.at().operation->kind)) {
        inPair = 2;
        begin = times[n].start;
        continue;
      }
      trace::Event event = eventOf(*stretch.round, walk, n);
      if (inPair > 0) {
        --inPair;
        event.start = begin;
      }
      all.push_back(event);
    }
  }
  return all;
}

} // namespace pipec::runtime
