#include "runtime/device/Meter.h"

namespace pipec::runtime {

/// To the sample of its piece of time, if that is the last one.
void Meter::Track::append(const adapt::Sample &sample) {
  if (samples.empty() || samples.back().end / piece != sample.end / piece) {
    samples.push_back(sample);
    return;
  }
  samples.back().tally.add(sample.tally);
  samples.back().end = std::max(samples.back().end, sample.end);
}

void Meter::Track::add(const adapt::Sample &sample) {
  append(sample);
  while (samples.size() > kMost) {
    piece *= 2;
    for (const std::vector<adapt::Sample> old = std::exchange(samples, {}); const adapt::Sample &each : old)
      append(each);
  }
}

void Meter::add(int32_t from, int32_t to, const adapt::Tally &tally, Time end) {
  std::lock_guard lock(mutex);
  tracks[{from, to}].add({end, tally, from, to});
}

void Meter::transferred(int32_t peer, Time begin, Time end, Time latency, plan::Bytes bytes) {
  adapt::Tally tally;
  tally.add(end - begin, latency, bytes);
  add(peer, rank, tally, end);
}

void Meter::computed(const adapt::Tally &operations, Time end) { add(process, -1, operations, end); }

void Meter::stepped(int64_t step, Time end) {
  constexpr size_t kMost = 64; // nobody asks; a decision is about the last steps
  std::lock_guard lock(mutex);
  end -= pauses;
  for (auto &[known, last] : steps)
    if (known == step) {
      last = std::max(last, end);
      return;
    }
  steps.emplace_back(step, end);
  if (steps.size() > kMost)
    steps.pop_front();
}

void Meter::paused(Time took) {
  std::lock_guard lock(mutex);
  pauses += took;
}

Meter::Taken Meter::take(int64_t complete) {
  Taken taken;
  std::lock_guard lock(mutex);
  for (auto &[link, track] : tracks)
    taken.samples.insert(taken.samples.end(), track.samples.begin(), track.samples.end());
  tracks.clear();
  while (!steps.empty() && steps.front().first < complete) {
    taken.steps.push_back(steps.front());
    steps.pop_front();
  }
  return taken;
}

} // namespace pipec::runtime
