// Right plans of stages on several ranks: one microbatch, forwards with reshards between stages of unlike width,
// backwards likewise, an all-reduce of each stage that several ranks share, updates.
#pragma once

#include "test/plan/MakePlan.h"

namespace pipec::plan::test {

struct Burst {
  std::vector<int32_t> widths = {4, 2, 1}; // of stages: each is on the first so many ranks
  int32_t ranks = 0;                       // 0: as many as the widest stage has
  int64_t batch = 9;                       // sample i is on member i mod width
  int32_t layers = 2;                      // of each stage
  bool backward = true;                    // false: a plan for evaluation
  bool optimizer = true;                   // updates, and the sums that they take
  bool early = false;                      // each sum right after its stage's backward, not after all of them
  bool updates = false;                    // updates on a queue of their own
  bool boundaries = true;                  // it says what stages hand on, as plans since 1.10 do
  bool norm = false;                       // the norm of all gradients between sums and updates
  Time forward = 1'000'000'000, backwardTime = 2'000'000'000; // of a sample
  Time latency = 100'000'000, moved = 500'000'000;            // of a reshard, and of each sample in it
  Time sum = 3'000'000'000, update = 700'000'000, normCost = 300'000'000;
  Bytes boundary = 1 << 20, activation = 64 << 20, context = 16 << 20; // of a sample
  Bytes gradients = 4 << 20;                                           // of a layer
};

Plan makeBurst(const Burst &how = {});

/// How many samples a member of a stage has.
int64_t samplesOf(int64_t batch, int32_t width, int32_t rank);
/// The most samples that leave or reach a rank where the width changes; who stays where it is does not count.
int64_t samplesMoved(int64_t batch, int32_t from, int32_t to);

} // namespace pipec::plan::test
