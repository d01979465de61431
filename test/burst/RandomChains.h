// Random chains of layers, small enough for brute force, with costs of like size, so that plans have something to
// weigh.
#pragma once

#include "compiler/burst/Costs.h"
#include "test/Draws.h"

namespace pipec::burst {

class RandomChains : public test::Draws {
public:
  using Draws::Draws;

  Times times(Time scale) {
    Times times;
    int64_t samples = upTo(1, 3);
    Time time = upTo(scale / 4, scale);
    for (int64_t entries = upTo(1, 4); entries != 0; --entries) {
      times.push_back({samples, time});
      samples += upTo(1, 8);
      time = coin(90) ? time + upTo(0, scale) : time / 2; // a measured time may fall
    }
    return times;
  }

  Problem problem(int64_t layers, int32_t ranks) {
    Problem problem;
    problem.ranks = ranks;
    problem.batch = coin(50) ? ranks * upTo(1, 3) : upTo(1, 40);
    problem.collective = coin(50) ? Collective::Ring : Collective::Tree;
    problem.link = {.latency = upTo(0, 40) * 1'000'000, .bandwidth = coin(10) ? 0 : upTo(1, 300) * 1'000'000'007};
    for (; layers != 0; --layers) {
      Layer layer{.forward = times(200'000'000), .backward = times(400'000'000), .gradients = 0};
      if (coin(70))
        layer.gradients = upTo(1, 40'000'000);
      layer.fixed = coin(20) ? upTo(0, 4096) : 0;
      layer.perSample = upTo(0, 2'000'000);
      problem.layers.push_back(layer);
    }
    return problem;
  }
};

} // namespace pipec::burst
