// Prepare makes programs ready to run. Plans to be swapped in are decoded, verified, proved and fitted to the memory of
// the process, on a thread of low priority while the run goes on. The variants of the run's own plan are ready from the
// start.
#pragma once

#include "runtime/interpreter/Executable.h"
#include "runtime/simulate/Simulate.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <span>
#include <thread>

namespace pipec::runtime {

class Prepare {
public:
  /// All arguments must outlive this object. A plan to prepare must place stages as `running` does. The controller
  /// makes sure that the stages have the plan's cut when it runs.
  Prepare(std::shared_ptr<const plan::Plan> running, const Layout &layout, Device &device, TransferMemory &memory)
      : running(std::move(running)), rank(layout.place.rank), layout(layout), device(device), memory(memory) {}
  ~Prepare(); // waits for the plan that is being prepared

  struct Made {
    std::shared_ptr<const plan::Plan> plan;
    std::vector<std::shared_ptr<const Executable>> variants;
  };

  /// Makes all variants of the running plan, on the calling thread. `calls`: the call point of each variant; empty:
  /// each variant asks for the next step at its own beginning.
  Status variants(const std::vector<CallPoint> &calls, Made &made) const;

  using Done = std::function<void(Status, Made)>;
  /// Makes all variants of the plan that `file` holds. Returns at once; `done` is called on the thread of low priority.
  void load(std::vector<uint8_t> file, Done done);

private:
  struct Task {
    std::vector<uint8_t> file;
    Done done;
  };
  void work();
  Status make(const Task &task, Made &made);

  const std::shared_ptr<const plan::Plan> running;
  const int32_t rank;
  const Layout &layout;
  Device &device;
  TransferMemory &memory;
  std::mutex mutex; // guards the next two
  std::deque<Task> tasks;
  bool stopping = false;
  std::condition_variable changed;
  std::thread thread;
};

/// Decodes a plan file. Ok only if the plan's variants may run in place of those of `running`, on stages of their cut:
/// they keep the rules, are proved, and have the same stages on the same ranks and one cut of the same number of
/// layers. `proofs`: by variant.
Status readSuccessor(std::span<const uint8_t> file, const plan::Plan &running, plan::Plan &plan,
                     std::vector<simulate::Result> &proofs);

/// Ok if stages made for the cut `held` can run a variant. An unknown (empty) cut differs from none.
Status compareCut(const plan::Variant &variant, const std::vector<int32_t> &held);

/// From now on the calling thread runs only when no other thread wants the processor.
void lowerPriority();
/// From now on the calling thread gets a third of the processor time of a normal thread that competes with it.
void yieldToOthers();

} // namespace pipec::runtime
