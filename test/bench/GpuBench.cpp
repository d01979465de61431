// What a run on a GPU costs, each figure beside the same work by hand on the same driver: enqueueing an instruction,
// the time between two computations, and a step of four ranks that share the GPU. One JSON object a line: what,
// measured, limit, unit, beside. Where there is no GPU it says so and exits with 4.
//   ninja -C build/release bench-gpu && build/release/bin/bench-gpu
#include "runtime/simulate/Simulate.h"
#include "runtime/stage/MakeStage.h"
#include "runtime/transport/ipc/IpcTransport.h"
#include "test/bench/Enqueued.h"

#include <algorithm>
#include <barrier>
#include <cstdio>
#include <fmt/format.h>
#include <iostream>
#include <numeric>
#include <thread>

using namespace pipec;
using namespace pipec::bench;

namespace {

using C = gpu::CudaFunctions;

double median(std::vector<double> all) {
  std::nth_element(all.begin(), all.begin() + ptrdiff_t(all.size() / 2), all.end());
  return all[all.size() / 2];
}

void print(const char *what, double measured, double limit, const char *unit, const std::string &beside) {
  std::cout
      << nlohmann::json{{"what", what}, {"measured", measured}, {"limit", limit}, {"unit", unit}, {"beside", beside}}
      << std::endl;
}

void must(const Status &status) {
  if (!status.ok())
    throw std::runtime_error(status.message);
}

/// Says when a step was asked for, and when it had been issued.
class Timed final : public Pilot {
public:
  explicit Timed(std::shared_ptr<const Executable> program) : steps(std::move(program), 1) {}
  std::optional<Turn> turn(int64_t step, plan::Time rest) override {
    (step == 0 ? first : last) = Clock::monotonic();
    return steps.turn(step, rest);
  }
  void completed(int64_t) override {}
  bool atRest(int64_t) override { return true; }
  int64_t first = 0, last = 0; // nanoseconds

private:
  Steps steps;
};

/// A rank in the middle, with its device.
struct Rank {
  explicit Rank(int32_t microbatches) : program(makeProgram(3, 1, microbatches)), device(program, failure, false) {
    must(device.open(0));
    executable = prepare(program, nothing);
  }
  void run(Pilot &pilot, Launches &launches) {
    const std::unique_ptr<Stage> stage = std::make_unique<LaunchStage>(launches);
    Interpreter interpreter(device, launches, stage, program.queues.size());
    interpreter.run(pilot, 0);
    must(failure.status());
  }
  /// Keeps every queue busy, so that what is issued then only stands there.
  void occupy(uint64_t nanoseconds) {
    for (QueueId queue = 0; queue < program.queues.size(); ++queue)
      device.kernels().spin(device.on(queue), nanoseconds);
  }
  void finish() {
    for (QueueId queue = 0; queue < program.queues.size(); ++queue)
      device.finish(queue);
    must(failure.status());
  }

  const plan::Program program;
  Failure failure;
  Nothing nothing;
  CudaDevice device;
  std::shared_ptr<const Executable> executable;
};

/// A step: the launches, waits and events that the plan has, each a call.
double byHand(Rank &rank, const std::vector<gpu::CUevent> &events) {
  const Stream &stream = rank.executable->whole();
  Driver &cuda = rank.device.driver();
  std::vector<bool> recorded(events.size());
  const int64_t begin = Clock::monotonic();
  for (Walk walk(stream); !walk.done(); walk.next()) {
    const Stream::Item &item = walk.at();
    for (uint32_t w = item.firstWait; w != item.firstWait + item.waits; ++w)
      if (const QueueId of = stream.waits[w].queue; recorded[of])
        cuda.ask(&C::cuStreamWaitEvent, rank.device.on(item.queue), events[of], 0U);
    rank.device.kernels().spin(rank.device.on(item.queue), 1);
    if (item.awaited) {
      cuda.ask(&C::cuEventRecord, events[item.queue], rank.device.on(item.queue));
      recorded[item.queue] = true;
    }
  }
  return double(Clock::monotonic() - begin);
}

/// Host time of an instruction with its waits and its event, while the GPU is busy with something else.
void enqueueing() {
  constexpr int32_t kMicrobatches = 40;
  constexpr int kRounds = 15;
  constexpr uint64_t kBusy = 30'000'000; // nanoseconds
  std::vector<double> ours, bare;
  const int64_t count = plan::executed(makeProgram(3, 1, kMicrobatches));
  for (int round = 0; round < kRounds; ++round) {
    Rank rank(kMicrobatches);
    std::vector<gpu::CUevent> events(rank.program.queues.size());
    for (gpu::CUevent &event : events)
      rank.device.driver().ask(&C::cuEventCreate, &event, gpu::kEventDisableTiming);
    rank.occupy(kBusy);
    bare.push_back(byHand(rank, events) / double(count) / 1e3);
    rank.finish();
    rank.device.start(Clock(Clock::monotonic()));
    rank.occupy(kBusy);
    Timed pilot(rank.executable);
    Launches launches(rank.device, 1);
    rank.run(pilot, launches);
    ours.push_back(double(pilot.last - pilot.first) / double(count) / 1e3);
  }
  print("host time of an instruction beyond its bare calls", median(ours) - median(bare), 0.5, "us",
        fmt::format("{:.3f} us by hand", median(bare)));
}

double medianGap(Rank &rank, std::byte *times, size_t count) {
  std::vector<uint64_t> all(2 * count);
  rank.device.read({times, plan::Bytes(16 * count)}, reinterpret_cast<std::byte *>(all.data()));
  std::vector<double> gaps;
  for (size_t n = 1; n < count; ++n)
    gaps.push_back(double(all[2 * n]) - double(all[2 * n - 1]));
  return median(gaps) / 1e3;
}

/// Between two computations of 100 µs on the compute queue, by the GPU's own clock.
void idling() {
  constexpr uint64_t kSpin = 100'000; // nanoseconds
  Rank rank(40);
  const size_t count = size_t(2 * rank.program.step.size() * 40); // forwards, backwards and an optimizer step, at most
  std::byte *times = rank.device.allocate(plan::Bytes(16 * count));
  const size_t kept = 80;
  for (size_t n = 0; n < kept; ++n)
    rank.device.kernels().spin(rank.device.on(0), kSpin, reinterpret_cast<gpu::CUdeviceptr>(times) + 16 * n);
  rank.finish();
  const double bare = medianGap(rank, times, kept);
  rank.device.start(Clock(Clock::monotonic()));
  Steps pilot(rank.executable, 1);
  Launches launches(rank.device, kSpin, reinterpret_cast<gpu::CUdeviceptr>(times));
  rank.run(pilot, launches);
  print("idle time between computations beyond a loop's", medianGap(rank, times, kept) - bare, 1, "us",
        fmt::format("{:.3f} us by hand", bare));
}

/// Ranks as threads that share the GPU.
class Together {
public:
  Together(const plan::Plan &plan, int64_t steps) : plan(plan), steps(steps), barrier(plan.ranks()) {
    for (int32_t rank = 0; rank < plan.ranks(); ++rank)
      offers.push_back(nullptr);
    std::vector<std::jthread> threads;
    for (int32_t rank = 0; rank < plan.ranks(); ++rank)
      threads.emplace_back([this, rank] { run(rank); });
    threads.clear();
    must(failure.status());
  }
  std::vector<StepTimes> times; // of rank 0's computations

private:
  void note(Status status) {
    if (!status.ok())
      failure.raise(std::move(status));
  }

  void run(int32_t rank) {
    const plan::Program &program = plan.variants.front().programs[size_t(rank)];
    CudaDevice device(program, failure, false);
    TransferMemory memory(INT64_MAX);
    std::optional<IpcTransport> transport;
    std::unique_ptr<Stage> stage;
    std::shared_ptr<const Executable> executable;
    note(device.open(0));
    if (!failure.raised())
      note(memory.allocate(device, {&program}));
    if (!failure.raised()) {
      transport.emplace(rank, plan.ranks(), plan.groups, device, failure);
      CudaTransport::Regions received;
      for (const auto &[peer, region] : memory.received())
        received[peer] = {region.data, region.bytes};
      std::lock_guard lock(mutex);
      offers[size_t(rank)] = transport->offer(received);
    }
    barrier.arrive_and_wait();
    if (!failure.raised()) {
      CudaTransport::Regions landings;
      note(transport->accept(offers, landings));
      for (const auto &[peer, region] : landings)
        memory.setLanding(peer, {region.data, region.bytes});
      note(makeStage(kSynthetic, plan, rank, device, failure, stage));
      note(Executable::make(nullptr, program, {}, Layout(program), memory, executable, &plan.variants.front()));
    }
    barrier.arrive_and_wait();
    if (!failure.raised()) {
      device.start(Clock(Clock::monotonic()));
      Steps pilot(executable, steps);
      Interpreter(device, *transport, stage, program.queues.size()).run(pilot, 0);
    }
    barrier.arrive_and_wait(); // until then others use what is here
    if (rank == 0)
      times = device.recorders().front().steps;
  }

  const plan::Plan &plan;
  const int64_t steps;
  Failure failure;
  std::barrier<> barrier;
  std::mutex mutex;
  nlohmann::json offers = nlohmann::json::array();
};

/// GPipe of operations of 1 ms over ipc, beside the time that the plan predicts.
void stepOfFour() {
  constexpr int64_t kSteps = 10, kFirst = 2; // of those that count
  test::Pipeline pipeline;
  pipeline.ranks = 4;
  pipeline.microbatches = 16;
  pipeline.forward = pipeline.backward = pipeline.optimizer = 1'000'000'000;
  pipeline.wire = pipeline.latency = 0;
  pipeline.bytes = 64 << 10;
  const plan::Plan plan = test::makePlan(pipeline);
  simulate::Result result;
  plan::Time span = 0;
  must(simulate::span(plan.variants.front(), span, result));
  const std::vector<StepTimes> times = Together(plan, kSteps).times;
  const double took = double(times[kSteps - 1].lastEnd - times[kFirst - 1].lastEnd) / double(kSteps - kFirst);
  print("a step of four ranks on one GPU beyond what is predicted", 100 * (took / double(span) - 1), 1, "%",
        fmt::format("{:.3f} ms predicted", double(span) / 1e9));
}

} // namespace

int main() {
  try {
    enqueueing();
    idling();
    stepOfFour();
  } catch (const std::exception &error) {
    std::fprintf(stderr, "bench-gpu: %s\n", error.what());
    return 4;
  }
}
