// Random pipelines for tests of the passes: a problem, its words by a building block or by a schedule of the catalogue,
// and the IR of it all as text.
#pragma once

#include "compiler/schedule/catalogue/Catalogue.h"
#include "compiler/schedule/model/Block.h"
#include "compiler/schedule/model/Problem.h"

#include <optional>
#include <random>
#include <string>

namespace pipec::test {

struct RandomPipeline {
  schedule::Problem problem;
  const schedule::Entry *entry = nullptr;     // null: the block stands for itself
  schedule::Parameters parameters;            // of the entry
  schedule::Block block;                      // empty where the entry has none
  std::string communicator;                   // "per_edge", "per_pair", "launch_order", "shared"
  bool fillWeights = false;                   // of a split backward
  std::optional<schedule::Words> orders = {}; // in place of block and entry
  bool anyRings = false;                      // rings for any timing
  std::string text() const;                   // the module
  schedule::Words words() const;
};

class Random {
public:
  explicit Random(uint64_t seed) : engine(seed) {}
  /// 0 to n - 1.
  int64_t below(int64_t n) { return int64_t(engine() % uint64_t(n)); }
  bool chance(int64_t oneIn) { return below(oneIn) == 0; }

  /// A schedule of the catalogue, or a random block on a random placement. Split backwards may be whole here and there,
  /// and then take less; the words are orders then. Stages may run their forward again.
  RandomPipeline pipeline();

private:
  bool catalogued(RandomPipeline &made);
  void mix(RandomPipeline &made);
  void recompute(schedule::Problem &problem);
  schedule::Problem problem();
  bool randomBlock(const schedule::Problem &problem, schedule::Block &block);

  std::mt19937_64 engine;
};

} // namespace pipec::test
