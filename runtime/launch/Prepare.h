// Makes programs ready to run. Plans that are to be swapped in are decoded, verified, proved and fitted to what the
// process has allocated; that happens on a thread of low priority while the run goes on. The variants of the run's own
// plan are ready from the start.
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
  /// All outlive this object. A plan to be prepared must place stages as `running` does; that the stages have its
  /// cut when it runs is for the controller to see to.
  Prepare(std::shared_ptr<const plan::Plan> running, const Layout &layout, Device &device, TransferMemory &memory)
      : running(std::move(running)), rank(layout.place.rank), layout(layout), device(device), memory(memory) {}
  ~Prepare(); // waits for the plan that is being prepared

  struct Made {
    std::shared_ptr<const plan::Plan> plan;
    std::vector<std::shared_ptr<const Executable>> variants;
  };

  /// Makes all variants of the running plan, on the calling thread. `calls`: their call points; empty: the
  /// next step is asked for at each one's beginning.
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

/// Reads the plan that a file's bytes hold. Ok only if its variants may run in place of those of `running` on stages of
/// their cut: they keep the rules, are proved, and have the same stages on the same ranks, of one cut of as many
/// layers. `proofs`: of each variant.
Status readSuccessor(std::span<const uint8_t> file, const plan::Plan &running, plan::Plan &plan,
                     std::vector<simulate::Result> &proofs);

/// Ok if stages that were made for the cut `held` can run a variant. A cut that is not known is no other.
Status compareCut(const plan::Variant &variant, const std::vector<int32_t> &held);

/// From now on the calling thread runs only when no other wants the processor.
void lowerPriority();
/// From now on the calling thread gets a third of what another would that wants the processor.
void yieldToOthers();

} // namespace pipec::runtime
