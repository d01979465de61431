// Step times, lateness and trace events of a queue.
#include "runtime/device/host/Recorder.h"

#include <algorithm>
#include <bit>

namespace pipec::runtime {

// Below 16 each nanosecond has its bucket; above, each power of two has 16.
static size_t bucketOf(uint64_t nanoseconds) {
  if (nanoseconds < 16)
    return size_t(nanoseconds);
  unsigned shift = unsigned(std::bit_width(nanoseconds)) - 5;
  return std::min<size_t>((shift + 1) * 16 + ((nanoseconds >> shift) - 16), Lateness::kBuckets - 1);
}

static double middleOf(size_t bucket) {
  if (bucket < 16)
    return double(bucket);
  unsigned shift = unsigned(bucket / 16) - 1;
  return (double(16 + bucket % 16) + 0.5) * double(uint64_t(1) << shift);
}

void Lateness::add(plan::Time late) {
  int64_t nanoseconds = std::max<plan::Time>(late, 0) / 1000;
  ++buckets[bucketOf(uint64_t(nanoseconds))];
  ++total;
  sum += nanoseconds;
  largest = std::max(largest, late);
}

void Lateness::merge(const Lateness &other) {
  for (size_t b = 0; b < kBuckets; ++b)
    buckets[b] += other.buckets[b];
  total += other.total;
  sum += other.sum;
  largest = std::max(largest, other.largest);
}

double Lateness::mean() const { return total == 0 ? 0 : 1000.0 * double(sum) / double(total); }

double Lateness::quantile(double part) const {
  double seen = 0;
  for (size_t b = 0; b < kBuckets; ++b) {
    seen += double(buckets[b]);
    if (buckets[b] > 0 && seen >= part * double(total))
      return std::min(1000.0 * middleOf(b), double(largest));
  }
  return 0;
}

std::vector<int64_t> Lateness::pack() const {
  size_t filled = kBuckets;
  while (filled > 0 && buckets[filled - 1] == 0)
    --filled;
  std::vector<int64_t> packed{total, sum, largest};
  packed.insert(packed.end(), buckets.begin(), buckets.begin() + ptrdiff_t(filled));
  return packed;
}

Lateness Lateness::unpack(const std::vector<int64_t> &packed) {
  Lateness result;
  if (packed.size() < 3 || packed.size() > 3 + kBuckets)
    return result;
  result.total = packed[0];
  result.sum = packed[1];
  result.largest = packed[2];
  std::copy(packed.begin() + 3, packed.end(), result.buckets.begin());
  return result;
}

void Recorder::record(const Label &label, plan::Time due, plan::Time start, plan::Time end, plan::Time late) {
  if (device) {
    if (steps.size() <= size_t(label.step))
      steps.resize(size_t(label.step) + 1);
    StepTimes &times = steps[size_t(label.step)];
    times.firstStart = std::min(times.firstStart, due);
    times.lastEnd = std::max(times.lastEnd, end);
  }
  lateness.add(late);
  if (trace) {
    const plan::Operation &op = *label.operation;
    events.push_back({rank, queue, op.kind, op.of, op.stage, op.peer, label.microbatch, label.step, label.epoch, start,
                      end, op.activation + op.context});
  }
}

} // namespace pipec::runtime
