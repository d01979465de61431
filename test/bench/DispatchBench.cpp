// What the runtime itself costs an instruction: a program of empty operations, issued by the interpreter and run by the
// host device, traced, measured, and neither, beside a hand-written loop that calls the same operations. Real time is
// what a step takes, CPU is of all threads.
//   ninja -C build/release bench-dispatch && build/release/bin/bench-dispatch
#include "runtime/stage/HostStage.h"
#include "test/bench/Enqueued.h"

#include <benchmark/benchmark.h>

using namespace pipec;
using namespace pipec::runtime;
using namespace pipec::bench;

namespace {

constexpr int64_t kSteps = 20; // of a run

/// Operations that do nothing, on the host device. Where they `last`, each has ended when the clock is read again, as
/// those do that really compute.
class EmptyStage final : public test::Unsaved<HostStage> {
public:
  EmptyStage(HostDevice &device, const Clock *lasts) : Unsaved(device), lasts(lasts) {}

  Span run(const HostWork &work, plan::Time ready) override {
    benchmark::DoNotOptimize(work.microbatch());
    return {ready, lasts ? std::max(ready, lasts->now()) : ready};
  }

private:
  const Clock *lasts;
};

class NothingStage final : public test::Unsaved<Stage> {
public:
  void issue(QueueId, const Label &label, const StageSlots &) override { benchmark::DoNotOptimize(label.microbatch); }
};

void report(benchmark::State &state, const plan::Program &program) {
  state.SetItemsProcessed(state.iterations() * kSteps * plan::executed(program));
}

void byHand(benchmark::State &state) {
  plan::Program program = makeProgram(1, 0, int32_t(state.range(0)));
  NothingStage nothing;
  Stage &stage = nothing;
  benchmark::DoNotOptimize(&stage);
  const plan::Operation *operations = program.operations.data();
  for (auto _ : state)
    for (int64_t step = 0; step < kSteps; ++step) {
      for (int64_t m = 0; m < state.range(0); ++m)
        stage.issue(0, {&operations[0], m, step, 0}, {});
      for (int64_t m = 0; m < state.range(0); ++m)
        stage.issue(0, {&operations[1], m, step, 0}, {});
      stage.issue(0, {&operations[2], 0, step, 0}, {});
    }
  report(state, program);
}

/// Of a rank in the middle: receives, waits and sends as well.
void issued(benchmark::State &state) {
  plan::Program program = makeProgram(3, 1, int32_t(state.range(0)));
  Nothing nothing;
  const std::unique_ptr<Stage> stage = std::make_unique<NothingStage>();
  Steps steps(prepare(program, nothing), kSteps);
  for (auto _ : state) {
    Interpreter interpreter(nothing, nothing, stage, program.queues.size());
    interpreter.run(steps, 0);
  }
  report(state, program);
}

// A GPU's device over functions that do nothing: what the runtime adds to each call.
#define EMPTY(symbol, parameters)                                                                                      \
  [[maybe_unused]] gpu::CUresult empty_##symbol parameters { return gpu::kCudaSuccess; }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
namespace empty {
using namespace gpu;
PIPEC_CUDA_FUNCTIONS(EMPTY)
} // namespace empty
#pragma GCC diagnostic pop

gpu::CudaFunctions emptyFunctions() {
  gpu::CudaFunctions functions;
#define SET(symbol, parameters) functions.symbol.address = empty::empty_##symbol;
  PIPEC_CUDA_FUNCTIONS(SET)
  functions.cuDriverGetVersion.address = [](int *version) { return *version = gpu::kCudaNeeded, gpu::kCudaSuccess; };
  functions.cuDeviceGetCount.address = [](int *count) { return *count = 1, gpu::kCudaSuccess; };
  functions.cuCtxGetStreamPriorityRange.address = [](int *least, int *greatest) {
    *least = 0, *greatest = -5;
    return gpu::kCudaSuccess;
  };
  return functions;
}

/// Of a rank in the middle; each instruction with its waits and events.
void enqueued(benchmark::State &state) {
  plan::Program program = makeProgram(3, 1, int32_t(state.range(0)));
  Failure failure;
  Nothing nothing;
  Steps steps(prepare(program, nothing), kSteps);
  for (auto _ : state) {
    state.PauseTiming();
    CudaDevice device(program, failure, false, emptyFunctions());
    Launches launches(device, 1);
    const std::unique_ptr<Stage> stage = std::make_unique<LaunchStage>(launches);
    if (Status status = device.open(0); !status.ok())
      throw std::runtime_error(status.message);
    device.start(Clock(Clock::monotonic()));
    Interpreter interpreter(device, launches, stage, program.queues.size());
    state.ResumeTiming();
    interpreter.run(steps, 0);
  }
  if (failure.raised())
    throw std::runtime_error(failure.status().message);
  report(state, program);
}

/// The same calls in a loop: for each instruction a launch, and a wait and an event where the plan has them.
void enqueuedByHand(benchmark::State &state) {
  plan::Program program = makeProgram(3, 1, int32_t(state.range(0)));
  Nothing nothing;
  std::shared_ptr<const Executable> executable = prepare(program, nothing);
  const gpu::CudaFunctions cuda = emptyFunctions();
  for (auto _ : state)
    for (int64_t step = 0; step < kSteps; ++step)
      for (Walk walk(executable->whole()); !walk.done(); walk.next()) {
        for (uint32_t w = 0; w < walk.at().waits; ++w)
          cuda.cuStreamWaitEvent.address(nullptr, nullptr, 0);
        cuda.cuLaunchKernel.address(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
        if (walk.at().awaited)
          cuda.cuEventRecord.address(nullptr, nullptr);
      }
  report(state, program);
}

struct How {
  bool trace = false, measure = false, last = false;
};

void run(benchmark::State &state, How how) {
  plan::Program program = makeProgram(1, 0, int32_t(state.range(0)));
  for (plan::Operation &each : program.operations)
    each.cost = 1; // only what costs something is measured
  Nothing nothing;
  Clock clock(Clock::monotonic());
  Meter meter(0);
  for (auto _ : state) {
    state.PauseTiming();
    Failure failure;
    auto device = std::make_unique<HostDevice>(program, clock, failure, how.trace);
    if (how.measure)
      device->measure(meter);
    const std::unique_ptr<Stage> stage = std::make_unique<EmptyStage>(*device, how.last ? &clock : nullptr);
    Steps steps(prepare(program, *device), kSteps);
    Interpreter interpreter(*device, nothing, stage, program.queues.size());
    device->start();
    state.ResumeTiming();
    interpreter.run(steps, 0);
    state.PauseTiming();
    device.reset();
    state.ResumeTiming();
  }
  report(state, program);
}

void untraced(benchmark::State &state) { run(state, {}); }
void traced(benchmark::State &state) { run(state, {.trace = true}); }
void measured(benchmark::State &state) { run(state, {.measure = true}); }
void lasting(benchmark::State &state) { run(state, {.last = true}); }
void lastingMeasured(benchmark::State &state) { run(state, {.measure = true, .last = true}); }

BENCHMARK(byHand)->Arg(1000);
BENCHMARK(issued)->Arg(1000);
BENCHMARK(enqueued)->Arg(1000);
BENCHMARK(enqueuedByHand)->Arg(1000);
BENCHMARK(untraced)->Arg(1000)->Arg(20000)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK(traced)->Arg(1000)->Arg(20000)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK(measured)->Arg(20000)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK(lasting)->Arg(20000)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK(lastingMeasured)->Arg(20000)->MeasureProcessCPUTime()->UseRealTime();

} // namespace

BENCHMARK_MAIN();
