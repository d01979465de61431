// A queue of a CUDA device: a stream, an event for each count that can be waited for, and the recent instructions. A
// wait looks back one step, and the interpreter stays within two steps of the slowest queue, so three steps are kept.
#pragma once

#include "runtime/device/Recorder.h"
#include "runtime/device/cuda/Driver.h"

#include <array>
#include <vector>

namespace pipec::runtime {

struct CudaQueue {
  struct Instruction {
    const plan::Operation *operation = nullptr;
    int64_t microbatch = 0;
    uint64_t waits = 0; // end of `waited` when the instruction was issued
  };
  struct Wait {
    QueueId queue = 0;
    int64_t count = 0;
  };
  struct Step {
    int64_t first = 0, last = -1;                // the counts before it and at its end; -1: none is open
    std::shared_ptr<const Round> round;          // keeps the step's program while it is not in the recorder
    gpu::CUevent begin = nullptr, end = nullptr; // on queues that compute
  };

  gpu::CUstream stream = nullptr;
  int64_t issued = 0;                    // instructions
  int64_t completed = 0;                 // number of these that have ended, at the last check
  std::vector<gpu::CUevent> ends;        // by count
  std::vector<bool> announced;           // by count: whether its event was recorded
  std::vector<gpu::CUevent> begins;      // by count; empty: nothing is traced
  std::vector<Instruction> instructions; // by count
  std::vector<Wait> waited;              // a ring
  uint64_t waits = 0;                    // number of waits so far
  std::vector<int64_t> past;             // by queue: the highest count that this queue has waited for
  std::array<Step, 4> steps;             // a ring, by step
  Step *step = nullptr;                  // the step that is being issued; null: the queue has none of its work
  Recorder recorder;

  size_t at(int64_t count) const { return size_t(count) % ends.size(); }
};

} // namespace pipec::runtime
