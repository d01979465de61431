// What a rank brings to an all-reduce and takes from it: one number, for clipping by the norm of all gradients. In the
// all-reduce of gradients (label.operation->of), over a group of ranks with copies of the same stages, this number
// stands for the gradients themselves, which no stage hands over yet.
#pragma once

#include "runtime/device/Device.h"

namespace pipec::runtime {

class Summand {
public:
  virtual ~Summand() = default;

  // Called while the all-reduce `label` runs, on the transport's thread: all backwards of the step are complete and the
  // optimizers wait, so nothing else of the rank runs. An error raises the rank's Failure. CUDA: kernels on the
  // all-reduce's stream, before and after it, on a number in device memory.

  /// When it starts: the sum of the squares of this rank's gradients.
  virtual double gradientNorm(const Label &label) = 0;
  /// When it ends: the sum of what all ranks said, the square of the norm of all gradients.
  virtual void setGlobalNorm(const Label &label, double total) = 0;
};

} // namespace pipec::runtime
