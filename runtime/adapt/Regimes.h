// Predicts how long the best candidate stays the best, from how long earlier ones did (a regime).
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

  /// Takes the best candidate of a step. Returns the number of steps for which it should stay the best: the mean
  /// remaining life of regimes of this age. If none was as old, as long as this one has lasted, and at least kAtFirst.
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

/// Whether a swap pays: `gain` per step, for `dwell` steps, is more than `cost`.
inline bool pays(plan::Time gain, int64_t dwell, plan::Time cost) { return __int128(gain) * dwell > cost; }

} // namespace pipec::adapt
