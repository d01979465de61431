// The gradients and weights of a synthetic stage, of which there are replicas, or which is on several ranks: small
// whole numbers that follow from element, step and process, so that a sum that misses one, comes too early or is
// counted twice is noticed, and so is a weight that was not gathered.
#pragma once

#include "runtime/plan/Layers.h"
#include "runtime/plan/Place.h"
#include "runtime/plan/Status.h"
#include "runtime/stage/LayerTable.h"

#include <set>

namespace pipec::runtime {

class SyntheticLayers {
public:
  /// A stage's layers hold `most` bytes of gradients in all, where they have more in the plan.
  SyntheticLayers(const plan::Plan &plan, const plan::Place &place, plan::Bytes most);

  std::span<const LayerMemory> of(int32_t stage) const { return layers.of(stage); }

  /// As they are before step `step`.
  void reset(int64_t step);
  /// What a forward in a step finds as weights of its layers.
  Status checkWeights(const plan::Operation &operation, int64_t step);
  /// Checks the sums of an update's layers, or its share of them, and updates these.
  Status update(const plan::Operation &operation, int64_t step);

private:
  struct Shared;
  Shared sharedOf(const plan::Plan &plan, const plan::Place &place, size_t weight, bool isSummed) const;
  Status updateShared(const plan::Operation &operation, int64_t step);

  /// Whom a stage's gradients are summed with: the replicas of the rank, or the ranks that the stage is on.
  struct Sharers {
    int32_t count = 1;
    int32_t own = 0; // this one among them
  };
  std::map<int32_t, Sharers> sharers; // by stage
  /// A weight that several ranks sum.
  struct Shared {
    Sharers sharers;
    std::set<int32_t> layers;  // of this rank, that hold it
    std::set<int32_t> updated; // of them, in this step
  };
  std::vector<Shared> shared; // as plan::Variant::shared
  std::vector<plan::Layers> layersOfStage;
  LayerTable layers;
  std::vector<std::vector<float>> memory; // of all layers: gradients, then weights
};

} // namespace pipec::runtime
