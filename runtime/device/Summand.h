// A summand is what a process contributes to a collective and takes from it. All-reduce of a norm: one number, for
// clipping by the norm of all gradients. All-reduce of gradients (label.operation->of) over a group of ranks with
// copies of the same stages: this number stands for the gradients themselves. Collectives of layers between replicas,
// or of a shared weight between the ranks that hold it: the memory in which the stage keeps gradients and weights.
#pragma once

#include "runtime/device/Device.h"
#include "runtime/device/LayerMemory.h"

#include <functional>
#include <span>

namespace pipec::runtime {

class Summand {
public:
  virtual ~Summand() = default;

  // Called for the all-reduce `label` on `queue`: all backwards of the step are complete and the optimizers wait, so
  // nothing else of the rank runs. `number` is a double in device memory. The host's transport calls both on its own
  // thread when the all-reduce begins and ends, and needs that thread for transfers: `then` is called once the number
  // is there, or read, from any thread, at once or later. CUDA: both are called when the all-reduce is issued, before
  // and after it, enqueue their work on the queue's stream, and call `then` before they return. An error raises the
  // rank's Failure; `then` may not be called after it.
  using Then = std::function<void()>;

  /// Fills in the sum of the squares of this rank's gradients.
  virtual void gradientNorm(QueueId queue, const Label &label, Slot number, const Then &then) = 0;
  /// Reads the sum over all ranks, which is the square of the norm of all gradients.
  virtual void setGlobalNorm(QueueId queue, const Label &label, Slot number, const Then &then) = 0;

  /// The layers of a stage, if replicas sum or gather layers. For `stage` = plan::kSharedWeights: the plan's shared
  /// weights; a weight that this rank does not sum has no elements. The memory never moves. From any thread.
  virtual std::span<const LayerMemory> layersOf(int32_t stage) const {
    (void)stage;
    return {};
  }
};

} // namespace pipec::runtime
