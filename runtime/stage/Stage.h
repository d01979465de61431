// A stage is what a rank computes: forward and backward of its stages, issued on device queues. It owns activations and
// weight contexts, by (stage, microbatch), from the forward until the backward that ends them. Data cross ranks in the
// runtime's transfer slots; the stage itself hands data over between stages of one rank, at no cost. One object serves
// all stages of a rank.
#pragma once

#include "runtime/device/Summand.h"
#include "runtime/plan/Status.h"

#include <algorithm>
#include <string>
#include <vector>

namespace pipec::runtime {

/// The slots of an instruction; none if its neighbour stage is on the same rank or there is no neighbour. `in` is read
/// and `out` is written only while the instruction runs.
struct StageSlots {
  Slot in;  // forward: the activation; backward: the gradient
  Slot out; // forward: the activation; backward: the gradient
};

/// The memory of a rank's stages, in bytes.
struct StageMemory {
  plan::Bytes fixed = 0; // weights, gradients, optimizer state
  plan::Bytes live = 0;  // activations and weight contexts, now
  plan::Bytes peak = 0;  // the most that `live` has been
};

/// The portions of each shard of a rank in the splits of its stages, and the balancing that chose them.
struct Portions {
  std::vector<plan::Portion> all;
  std::string balance; // JSON
  bool operator==(const Portions &) const = default;
};
/// The portions of a rank's stages; none without shards.
inline Portions portionsOf(const plan::Variant &variant, int32_t rank) {
  Portions portions{{}, variant.balance};
  const std::vector<int32_t> &stages = variant.programs[size_t(rank)].stages;
  for (const plan::Portion &each : variant.portions)
    if (std::find(stages.begin(), stages.end(), each.stage) != stages.end())
      portions.all.push_back(each);
  return portions;
}

class Stage : public Summand {
public:
  /// Issues the work of an instruction on `queue` and returns (or when the queue has room): the queue runs it once what
  /// was issued on it before is done, and counts one. label.operation says which kind of work of which stage
  /// (plan::isOfStage), label.microbatch of which microbatch. Wrong data or an error of the device raises the rank's
  /// Failure. CUDA: kernel launches or a graph on the queue's stream, never a synchronisation.
  ///
  /// The table of kinds (runtime/plan/Kinds.h) says what a pass makes and ends. A W has no slots, as nothing of it
  /// leaves the rank. After the header of a pair, the forward and the backward issued next belong together: a stage
  /// that can run both at once does so; a stage that cannot does nothing at the header and runs them one after the
  /// other. The optimizer's step comes once per stage and step; in plans with an all-reduce of a norm, after
  /// setGlobalNorm.
  virtual void issue(QueueId queue, const Label &label, const StageSlots &slots) = 0;

  // Between steps only: from the issuing thread, once everything issued has completed.

  /// Sets the portions of the rank's shards from `step` on, on all shards at once: before the first step, and whenever
  /// another program begins. The portions may be the same as before. Not called without shards.
  virtual Status share(const Portions &portions, int64_t step) {
    (void)portions, (void)step;
    return {};
  }

  /// Writes to a new file at `path` everything that training needs to go on after `steps` steps: weights, optimizer
  /// state, random state, the position in the data. The file is this rank's; its format is the stage's. The caller
  /// makes it durable and gives it its final name.
  virtual Status save(const std::string &path, int64_t steps) = 0;
  /// Reads such a file, before the first step. Refuses a file of other than `steps` steps or of other stages.
  virtual Status load(const std::string &path, int64_t steps) = 0;

  /// Whether the stage can also be saved and loaded layer by layer, as a new cut of the model needs.
  virtual bool savesLayers() const = 0;
  /// Saves one layer of the model (from 0), which a stage of this rank holds. The file belongs to the layer, whichever
  /// rank and stage loads it. A stage made for another cut (makeStage with that plan) that loads all of its layers
  /// before its first step goes on bit for bit as the stages that saved them. Not called if savesLayers() is false.
  virtual Status saveLayer(int32_t layer, const std::string &path, int64_t steps) = 0;
  /// Reads such a file. Refuses a file of other than `steps` steps or of another layer, and a layer that is not here.
  virtual Status loadLayer(int32_t layer, const std::string &path, int64_t steps) = 0;

  virtual StageMemory memory() const = 0;
};

} // namespace pipec::runtime
