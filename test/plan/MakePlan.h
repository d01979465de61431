// Right plans for tests, made without the compiler: 1F1B over any number of ranks, one queue a directed pair, rings and
// their waits, rolled or not. Tests change one thing in them and see what is said of it.
#pragma once

#include "runtime/plan/Plan.h"

namespace pipec::plan::test {

struct Make {
  int32_t ranks = 4;
  int32_t stagesPerRank = 1; // contiguous: rank r holds stages r * n … r * n + n - 1
  int32_t microbatches = 8;
  bool backward = true;  // false: a plan for evaluation
  bool split = false;    // B and W in place of BW
  bool deferred = false; // split, with W on the weights queue
  bool optimizer = true;
  bool norm = false; // an all-reduce before the optimizers
  Bytes shared = 0;  // gradients of a weight that the first and the last rank's first stages hold; 0: there is none
  bool recompute = false; // R right before each backward
  Time overlapped =
      0; // one stage a rank: what a forward takes together with the backward behind it, from the second on
  bool rolled = true;
  uint32_t slots = 2; // of each ring; at most the microbatches
  Time forward = 10'000'000'000, backwardInput = 11'000'000'000, backwardWeight = 8'000'000'000;
  Time optimizerCost = 5'000'000'000, normCost = 300'000'000, sharedCost = 2'000'000'000, transfer = 1'000'000'000,
       latency = 20'000'000;
  Bytes boundary = Bytes(16) << 20, activation = Bytes(1) << 30, context = Bytes(256) << 20, input = Bytes(16) << 20;
  Bytes staticBytes = Bytes(6) << 30, workspace = Bytes(1) << 20, memoryLimit = 0;
};

Plan makePlan(const Make &make);

/// Two ranks, each with a copy of the one stage: forwards and fused backwards of two sequences of two slices each, the
/// sum of the copies' gradients, the optimizer.
Plan makeCopies();

/// The step of a program with the given straight-line instructions: repeated stretches whose microbatches and waits
/// advance evenly become segments.
void setStep(Program &program, const std::vector<Instruction> &instructions,
             const std::vector<std::vector<Wait>> &waits, bool rolled);

} // namespace pipec::plan::test
