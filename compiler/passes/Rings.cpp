#include "compiler/passes/Rings.h"

#include <algorithm>

namespace pipec {

void RingPlan::grow(const Times &times) {
  for (const auto &step : times) {
    std::vector<plan::Time> earliest(uses.size()); // by use, the earliest start of it and all behind it
    for (size_t n = uses.size(); n-- != 0;)
      earliest[n] =
          n + 1 == uses.size() ? step[uses[n].first].first : std::min(step[uses[n].first].first, earliest[n + 1]);
    size_t next = 0;
    for (size_t n = 0; n != uses.size(); ++n) {
      next = std::max(next, n + 1);
      while (next != uses.size() && earliest[next] < step[uses[n].last].second)
        ++next;
      size = std::max(size, uint32_t(next - n));
    }
  }
  while (size < uses.size() && !crossesSteps(times))
    size = std::min(uint32_t(uses.size()), size + 1 + size / 8);
  unlimited = size;
  heldUp |= size >= uses.size() && !crossesSteps(times);
}

/// Whether each slot is free by the time of its first use in the next step.
bool RingPlan::crossesSteps(const Times &times) const {
  for (size_t step = 0; step + 1 != times.size(); ++step)
    for (size_t n = 0; n != size; ++n) {
      size_t lastUser = n + (uses.size() - 1 - n) / size * size;
      if (times[step + 1][uses[n].first].first < times[step][uses[lastUser].last].second)
        return false;
    }
  return true;
}

std::vector<std::pair<uint32_t, uint32_t>> RingPlan::reuses() const {
  std::vector<std::pair<uint32_t, uint32_t>> made;
  std::vector<uint32_t> latest; // by use, the last end of it and all before it
  for (const Use &use : uses)
    latest.push_back(latest.empty() ? use.last : std::max(latest.back(), use.last));
  for (uint32_t n = size; n < uses.size(); ++n)
    made.emplace_back(uses[n].first, !over.empty() && over[n] > n - size ? latest[over[n] - 1] : uses[n - size].last);
  return made;
}

bool RingPlan::inOrder() const {
  for (size_t n = size; n < uses.size(); ++n)
    if (uses[n - size].last >= uses[n].first)
      return false;
  return true;
}

__int128 bytesOf(const Rings &rings) {
  __int128 bytes = 0;
  for (const auto &[key, ring] : rings)
    bytes += __int128(ring.size) * ring.bytes;
  return bytes;
}

void fit(Rings &rings, __int128 room) {
  __int128 bytes = bytesOf(rings);
  for (const bool toLeast : {true, false})
    while (bytes > room) {
      RingPlan *most = nullptr;
      for (auto &[key, ring] : rings)
        if (ring.bytes > 0 && ring.size > (toLeast ? ring.least : 1) &&
            (!most || __int128(ring.size) * ring.bytes > __int128(most->size) * most->bytes))
          most = &ring;
      if (!most)
        break;
      --most->size;
      bytes -= most->bytes;
    }
}

void widen(Rings &rings, __int128 room) {
  const auto hasLess = [](const RingPlan &one, const RingPlan &other) {
    return uint64_t(one.size) * other.wanted < uint64_t(other.size) * one.wanted;
  };
  for (__int128 left = room - bytesOf(rings);;) {
    RingPlan *least = nullptr;
    for (auto &[key, ring] : rings)
      if (ring.size < ring.wanted && ring.bytes <= left && (!least || hasLess(ring, *least)))
        least = &ring;
    if (!least)
      return;
    ++least->size;
    left -= least->bytes;
  }
}

} // namespace pipec
