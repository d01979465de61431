// A mixed seed and a running product: cheap enough to vanish beside an operation, different in every word.
#include "runtime/stage/synthetic/Pattern.h"

#include <cstring>

namespace pipec::runtime {

static uint64_t mix(uint64_t x) { // splitmix64's finalizer
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

uint64_t seedOf(const PatternKey &key) {
  uint64_t seed = mix(uint64_t(key.step) + 1);
  seed = mix(seed ^ uint64_t(key.microbatch));
  return mix(seed ^ (uint64_t(uint32_t(key.stage)) << 8 | uint64_t(key.of)));
}

static uint64_t wordAt(uint64_t seed, int64_t index) { return seed + uint64_t(index) * 0x9e3779b97f4a7c15; }

// Whole words in loops that the compiler can vectorize, then the last bytes.
void fill(const Slot &slot, const PatternKey &key) {
  uint64_t seed = seedOf(key);
  int64_t words = slot.bytes / 8, rest = slot.bytes % 8;
  for (int64_t i = 0; i < words; ++i) {
    uint64_t word = wordAt(seed, i);
    std::memcpy(slot.data + 8 * i, &word, 8);
  }
  uint64_t last = wordAt(seed, words);
  std::memcpy(slot.data + 8 * words, &last, size_t(rest));
}

int64_t firstWrong(const Slot &slot, const PatternKey &key) {
  uint64_t seed = seedOf(key), difference = 0;
  int64_t words = slot.bytes / 8, rest = slot.bytes % 8;
  for (int64_t i = 0; i < words; ++i) {
    uint64_t word;
    std::memcpy(&word, slot.data + 8 * i, 8);
    difference |= word ^ wordAt(seed, i);
  }
  uint64_t last = wordAt(seed, words);
  if (difference == 0 && std::memcmp(slot.data + 8 * words, &last, size_t(rest)) == 0)
    return -1;
  int64_t at = 0;
  while (slot.data[at] == std::byte(wordAt(seed, at / 8) >> (8 * (at % 8))))
    ++at;
  return at;
}

} // namespace pipec::runtime
