// Random numbers for tests that make their cases of them.
#pragma once

#include <cstdint>
#include <random>

namespace pipec::test {

class Draws {
public:
  explicit Draws(uint32_t seed) : random(seed) {}

  int64_t upTo(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random); }
  bool coin(int percent) { return upTo(1, 100) <= percent; }

private:
  std::mt19937 random;
};

} // namespace pipec::test
