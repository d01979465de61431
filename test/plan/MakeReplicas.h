// A right plan of two ranks with two replicas each, two layers a stage and two microbatches: 1F1B, whose first F and
// last BW are cut into layers; of each stage layer 0 is sharded, layer 1 summed in two pieces.
#pragma once

#include "test/plan/MakePlan.h"

namespace pipec::plan::test {

struct Replicated {
  bool norm = false; // the norm of all gradients between sums and updates
  Bytes shared = 0;  // gradients of a weight that layer 1 of both stages holds, which has no others then; without norm
  bool updated = true; // whether layer 1 is updated then
};

Plan makeReplicas(const Replicated &how = {});

} // namespace pipec::plan::test
