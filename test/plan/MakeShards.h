// Right plans of ranks with shards: 1F1B as makePlan() makes it, each pass but W ended by sums between the shards of
// its rank.
#pragma once

#include "test/plan/MakePlan.h"

namespace pipec::plan::test {

struct Sharded {
  Make make = {}; // what all shards of a rank run; its times are a whole pass's own ones on a healthy shard
  int32_t shards = 2;
  Time sum = 250'000'000; // each of the two that F, R, B and BW have
  bool exchange = false;  // so has the optimizer
  /// By process, in millionths; those that are not named have factor 1.
  std::vector<int64_t> factors = {};
  int64_t units = 8; // of the split "heads", which each stage's one layer has; cut equally
  /// In place of what follows from the above. `cost` of an operation with sums is 2 * sum and the longest `between`.
  std::vector<Own> own = {};
  std::vector<Portion> portions = {};
};

/// Group r is of rank r's shards. By default of an operation's own time one half is before its first sum, one quarter
/// between the two and the rest behind them, and each shard holds what the program says.
Plan makeShards(const Sharded &how);

/// Of one split: equal numbers of units, the first shards with one more where they do not come out even; all are worked
/// where they are owned, and kept.
std::vector<Portion> equalPortions(int32_t stage, int32_t layers, const std::string &split, int64_t units,
                                   int32_t shards);

} // namespace pipec::plan::test
