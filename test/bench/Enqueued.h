// Programs whose instructions are a call each, issued by the interpreter.
#pragma once

#include "runtime/device/cuda/CudaDevice.h"
#include "runtime/interpreter/Interpreter.h"
#include "test/runtime/Plans.h"
#include "test/runtime/Unsaved.h"

#include <stdexcept>

namespace pipec::bench {

using namespace runtime;

/// Takes what is issued and forgets it: what remains is the interpreter's own work.
class Nothing final : public Device, public Transport {
public:
  void wait(QueueId, QueueId, int64_t count) override { keep(count); }
  bool synchronize(QueueId, int64_t) override { return true; }
  void issued(QueueId, bool awaited) override { keep(awaited); }
  void read(Slot, std::byte *) override {}
  void write(Slot, const std::byte *) override {}
  std::byte *allocate(plan::Bytes bytes) override {
    blocks.emplace_back(new std::byte[size_t(bytes)]);
    return blocks.back().get();
  }
  void send(QueueId, const Label &label, Slot, Slot) override { take(label); }
  void recv(QueueId, const Label &label, Slot) override { take(label); }
  void allReduce(QueueId, const Label &label, Summand &) override { take(label); }
  void exchange(QueueId, const Label &label, Summand &) override { take(label); }

private:
  /// The compiler may not leave out what made it.
  template <typename T> static void keep(const T &value) { asm volatile("" : : "r,m"(value) : "memory"); }
  static void take(const Label &label) { keep(label.microbatch); }
  std::vector<std::unique_ptr<std::byte[]>> blocks;
};

/// The same program for so many steps.
class Steps final : public Pilot {
public:
  Steps(std::shared_ptr<const Executable> program, int64_t steps) : program(std::move(program)), steps(steps) {}
  std::optional<Turn> turn(int64_t step, plan::Time) override {
    return step < steps ? std::optional<Turn>({program, 0, false}) : std::nullopt;
  }
  void completed(int64_t) override {}
  bool atRest(int64_t) override { return true; }

private:
  std::shared_ptr<const Executable> program;
  int64_t steps;
};

/// F and BW of so many microbatches and an optimizer step, of one rank among `ranks`.
inline plan::Program makeProgram(int32_t ranks, int32_t rank, int32_t microbatches) {
  test::Pipeline pipeline;
  pipeline.ranks = ranks;
  pipeline.microbatches = microbatches;
  pipeline.forward = pipeline.backward = pipeline.optimizer = 0;
  pipeline.bytes = 64;
  return test::makeProgram(pipeline, rank);
}

inline std::shared_ptr<const Executable> prepare(const plan::Program &program, Device &device) {
  TransferMemory memory(INT64_MAX);
  std::shared_ptr<const Executable> executable;
  Status status = memory.allocate(device, {&program});
  if (status.ok())
    status = Executable::make(nullptr, program, {}, Layout(program), memory, executable);
  if (!status.ok())
    throw std::runtime_error(status.message);
  return executable;
}

/// One call for each instruction: a launch.
class Launches final : public Transport {
public:
  /// Each spins for so long; `times`: where computations note when they began and ended, 16 bytes each; 0: nowhere.
  Launches(CudaDevice &device, uint64_t nanoseconds, gpu::CUdeviceptr times = 0)
      : device(device), nanoseconds(nanoseconds), times(times) {}
  void send(QueueId queue, const Label &label, Slot, Slot) override { launch(queue, label); }
  void recv(QueueId queue, const Label &label, Slot) override { launch(queue, label); }
  void allReduce(QueueId queue, const Label &label, Summand &) override { launch(queue, label); }
  void exchange(QueueId queue, const Label &label, Summand &) override { launch(queue, label); }
  void launch(QueueId queue, const Label &label) { device.kernels().spin(device.begin(queue, label), 1); }
  void compute(QueueId queue, const Label &label) {
    device.kernels().spin(device.begin(queue, label), nanoseconds, times ? times + 16 * computed++ : 0);
  }

private:
  CudaDevice &device;
  const uint64_t nanoseconds;
  const gpu::CUdeviceptr times;
  uint64_t computed = 0;
};

class LaunchStage final : public test::Unsaved<Stage> {
public:
  explicit LaunchStage(Launches &launches) : launches(launches) {}
  void issue(QueueId queue, const Label &label, const StageSlots &) override { launches.compute(queue, label); }

private:
  Launches &launches;
};

} // namespace pipec::bench
