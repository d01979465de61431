// What a rank computes: forward and backward of its stages, issued on device queues. Activations and weight contexts
// are the stage's own, named by (stage, microbatch): kept from forward until the backward that ends them. What crosses
// ranks comes and goes in the runtime's transfer slots; between stages of one rank the stage hands it over itself, at
// no cost. One object serves all stages of a rank.
#pragma once

#include "runtime/device/Summand.h"
#include "runtime/plan/Status.h"

#include <algorithm>
#include <string>
#include <vector>

namespace pipec::runtime {

/// The slots of an instruction; none where its neighbour stage is on the same rank or there is no neighbour. `in` is
/// read and `out` is written while the instruction runs, at no other time.
struct StageSlots {
  Slot in;  // forward: the activation; backward: the gradient
  Slot out; // forward: the activation; backward: the gradient
};

/// What a rank's stages hold.
struct StageMemory {
  plan::Bytes fixed = 0; // weights, gradients, optimizer state
  plan::Bytes live = 0;  // activations and weight contexts, now
  plan::Bytes peak = 0;  // the most that `live` has been
};

/// What each of a rank's shards has of the splits of its stages, and what chose that.
struct Portions {
  std::vector<plan::Portion> all;
  std::string balance; // JSON
  bool operator==(const Portions &) const = default;
};
/// Those of a rank's stages; none where ranks have no shards.
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
  /// What a pass makes and ends stands in the table of kinds (runtime/plan/Kinds.h). A W has no slots: nothing of it
  /// leaves the rank. After the header of a pair the forward and the backward issued next belong together: a stage that
  /// can run the two at once does; one that cannot does nothing at the header, and runs one after the other. The
  /// optimizer's step comes once a stage and step; in plans with an all-reduce of a norm after setGlobalNorm.
  virtual void issue(QueueId queue, const Label &label, const StageSlots &slots) = 0;

  // Between steps only: from the issuing thread, once all that was issued has completed.

  /// Says what the shards of the rank have from `step` on, on all of them at once: before the first step and where
  /// another program begins. They may have had it before. Nothing to call where ranks have no shards.
  virtual Status share(const Portions &portions, int64_t step) {
    (void)portions, (void)step;
    return {};
  }

  /// Writes to a new file at `path` all that training needs to go on after `steps` steps: weights, optimizer state,
  /// random state, the place in the data. The file is this rank's; its format is the stage's. The caller makes it
  /// durable and gives it its final name.
  virtual Status save(const std::string &path, int64_t steps) = 0;
  /// The opposite, before the first step; refuses a file that is not of `steps` steps or not of these stages.
  virtual Status load(const std::string &path, int64_t steps) = 0;

  /// Whether it can be saved and loaded layer by layer too, as a new cut of the model into stages needs.
  virtual bool savesLayers() const = 0;
  /// save() of one layer of the model (from 0), which a stage of this rank holds. The file is the layer's, whichever
  /// rank and stage load it: a stage made anew for another cut (makeStage with that plan), all of whose layers are
  /// loaded before its first step, goes on bit for bit as the ones that saved them. Nothing to call where
  /// savesLayers() is false.
  virtual Status saveLayer(int32_t layer, const std::string &path, int64_t steps) = 0;
  /// The opposite; refuses a file that is not of `steps` steps or not of this layer, and a layer that is not here.
  virtual Status loadLayer(int32_t layer, const std::string &path, int64_t steps) = 0;

  virtual StageMemory memory() const = 0;
};

} // namespace pipec::runtime
