// The gradients and weights of a synthetic stage with replicas or on several ranks: small whole numbers that follow
// from element, step and process. So a sum that misses a number, comes too early or counts one twice is detected, and
// so is a weight that was not gathered.
#pragma once

#include "runtime/plan/Layers.h"
#include "runtime/plan/Place.h"
#include "runtime/plan/Status.h"
#include "runtime/stage/LayerTable.h"

#include <set>

namespace pipec::runtime {

class SyntheticLayers {
public:
  /// `most`: the most bytes of gradients of a stage's layers, even if the plan has more.
  SyntheticLayers(const plan::Plan &plan, const plan::Place &place, plan::Bytes most);

  std::span<const LayerMemory> of(int32_t stage) const { return layers.of(stage); }

  /// Sets gradients and weights to those before step `step`.
  void reset(int64_t step);
  /// Checks the weights that a forward in a step finds in its layers.
  Status checkWeights(const plan::Operation &operation, int64_t step);
  /// Checks the sums of an update's layers, or of its share of them, and updates their weights.
  Status update(const plan::Operation &operation, int64_t step);

private:
  struct Shared;
  Shared sharedOf(const plan::Plan &plan, const plan::Place &place, size_t weight, bool isSummed) const;
  Status updateShared(const plan::Operation &operation, int64_t step);

  /// The processes that sum a stage's gradients: the replicas of the rank, or the ranks of the stage.
  struct Sharers {
    int32_t count = 1;
    int32_t own = 0; // number of this process among them
  };
  std::map<int32_t, Sharers> sharers; // by stage
  /// A weight that several ranks sum.
  struct Shared {
    Sharers sharers;
    std::set<int32_t> layers;  // the layers of this rank that hold it
    std::set<int32_t> updated; // those updated in this step
  };
  std::vector<Shared> shared; // as plan::Variant::shared
  std::vector<plan::Layers> layersOfStage;
  LayerTable layers;
  std::vector<std::vector<float>> memory; // by layer: gradients, then weights
};

} // namespace pipec::runtime
