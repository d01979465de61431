// Random pipelines for tests of the passes: a problem, a building block, and the IR of both as text.
#pragma once

#include "compiler/schedule/Block.h"
#include "compiler/schedule/Problem.h"

#include <random>
#include <string>

namespace pipec::test {

struct RandomPipeline {
  schedule::Problem problem;
  schedule::Block block;
  std::string communicator; // "per_edge", "per_pair", "shared"
  std::string text() const; // the module
};

class Random {
public:
  explicit Random(uint64_t seed) : engine(seed) {}
  /// 0 to n - 1.
  int64_t below(int64_t n) { return int64_t(engine() % uint64_t(n)); }
  bool chance(int64_t oneIn) { return below(oneIn) == 0; }

  /// A published block, or a random one on a random placement.
  RandomPipeline pipeline();

private:
  schedule::Problem problem();
  bool randomBlock(const schedule::Problem &problem, schedule::Block &block);

  std::mt19937_64 engine;
};

} // namespace pipec::test
