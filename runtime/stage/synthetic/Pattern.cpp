// A mixed seed and a running product: cheap enough to vanish beside an operation, different in every word.
#include "runtime/stage/synthetic/Pattern.h"

#include <cstring>

namespace pipec::runtime {

static uint64_t mix(uint64_t x) { // splitmix64's finalizer
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

static uint64_t seedOf(const PatternKey &key) {
  uint64_t seed = mix(uint64_t(key.step) + 1);
  seed = mix(seed ^ uint64_t(key.microbatch));
  return mix(seed ^ (uint64_t(uint32_t(key.stage)) << 8 | uint64_t(key.of)));
}

static uint64_t wordAt(uint64_t seed, int64_t index) { return seed + uint64_t(index) * 0x9e3779b97f4a7c15; }

void fill(const Slot &slot, const PatternKey &key) {
  uint64_t seed = seedOf(key);
  for (int64_t at = 0; at < slot.bytes; at += 8) {
    uint64_t word = wordAt(seed, at / 8);
    std::memcpy(slot.data + at, &word, size_t(slot.bytes - at < 8 ? slot.bytes - at : 8));
  }
}

int64_t firstWrong(const Slot &slot, const PatternKey &key) {
  uint64_t seed = seedOf(key);
  for (int64_t at = 0; at < slot.bytes; at += 8) {
    uint64_t word = wordAt(seed, at / 8);
    size_t count = size_t(slot.bytes - at < 8 ? slot.bytes - at : 8);
    if (std::memcmp(slot.data + at, &word, count) == 0)
      continue;
    for (size_t i = 0; i < count; ++i)
      if (slot.data[at + int64_t(i)] != std::byte(word >> (8 * i)))
        return at + int64_t(i);
  }
  return -1;
}

} // namespace pipec::runtime
