// For how long what is the best now is expected to stay so, from how long that lasted before.
#pragma once

#include "runtime/plan/Plan.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace pipec::adapt {

class Regimes {
public:
  explicit Regimes(size_t best = 0) : regime(best) {}

  /// Of a step the best candidate. Steps for which it should go on: the mean remaining life of regimes of this age;
  /// where there were none, as long as this one has lasted, and of the first ones a while.
  int64_t expect(size_t best) {
    constexpr int64_t kAtFirst = 16;
    if (best != regime) {
      lives.push_back(age);
      regime = best;
      age = 0;
    }
    ++age;
    int64_t sum = 0, count = 0;
    for (const int64_t life : lives)
      if (life > age) {
        sum += life - age;
        ++count;
      }
    return count == 0 ? std::max(age, kAtFirst) : std::max<int64_t>(sum / count, 1);
  }

private:
  std::vector<int64_t> lives;
  size_t regime;
  int64_t age = 0;
};

/// Whether a swap is worth what it costs: it gains so much a step, for so many steps.
inline bool pays(plan::Time gain, int64_t dwell, plan::Time cost) { return __int128(gain) * dwell > cost; }

} // namespace pipec::adapt
