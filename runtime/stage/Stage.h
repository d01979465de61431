// What a rank computes: forward and backward of its stages, issued on device queues. Activations and weight contexts
// are the stage's own, named by (stage, microbatch): kept from forward until the backward that ends them. What crosses
// ranks comes and goes in the runtime's transfer slots; between stages of one rank the stage hands it over itself, at
// no cost.
#pragma once

#include "runtime/device/Device.h"

namespace pipec::runtime {

/// The slots of an instruction; none where its neighbour stage is on the same rank or there is no neighbour. `in` is
/// read and `out` is written while the instruction runs, at no other time.
struct StageSlots {
  Slot in;  // forward: the activation; backward: the gradient
  Slot out; // forward: the activation; backward: the gradient
};

class Stage {
public:
  virtual ~Stage() = default;

  // Each call issues the work on `queue` and returns (or when the queue has room): the queue runs it once what was
  // issued on it before is done, and counts one. label.operation says which stage, label.microbatch which microbatch.
  // Wrong data or an error of the device raises the rank's Failure. CUDA: kernel launches or a graph on the queue's
  // stream, never a synchronisation.

  virtual void forward(QueueId queue, const Label &label, const StageSlots &slots) = 0;
  /// Gradient of the input; ends the activation. The weight context stays.
  virtual void backwardInput(QueueId queue, const Label &label, const StageSlots &slots) = 0;
  /// Gradient of the weights; ends the weight context. No slots: nothing of it leaves the rank.
  virtual void backwardWeight(QueueId queue, const Label &label) = 0;
  /// Both in one; ends both.
  virtual void backward(QueueId queue, const Label &label, const StageSlots &slots) = 0;
  /// Once a stage and step.
  virtual void optimizerStep(QueueId queue, const Label &label) = 0;
};

} // namespace pipec::runtime
