// What a decision costs: eight variants of 1F1B on 8 ranks with 64 microbatches, on links that change from step to
// step.
#include "runtime/adapt/Decider.h"
#include "runtime/device/Meter.h"
#include "test/plan/MakePlan.h"

#include <benchmark/benchmark.h>

#include <utility>

using namespace pipec;

namespace {

/// A step of a second, in which transfers took longer every other step.
adapt::StepReport reportOf(int64_t step, size_t candidate) {
  constexpr adapt::Time kStep = 1'000'000'000'000;
  adapt::StepReport report;
  report.candidate = report.lastCandidate = candidate;
  report.lastTook = kStep;
  for (int s = 0; s != adapt::kSlices; ++s) {
    adapt::Slice &slice = report.slices.emplace_back();
    slice.begin = step * kStep + kStep * s / adapt::kSlices;
    slice.end = step * kStep + kStep * (s + 1) / adapt::kSlices;
    for (int32_t rank = 0; rank != 8; ++rank) {
      for (const int32_t peer : {rank - 1, rank + 1})
        if (peer >= 0 && peer < 8)
          slice.links[{peer, rank}].add(adapt::Time(1 + step % 2 * 4 + s % 3) * 1'000'000'000, 20'000'000, 16 << 20);
      slice.ranks[rank].add(10'000'000'000, 10'000'000'000, 0);
    }
  }
  return report;
}

void decide(benchmark::State &state) {
  std::vector<plan::Plan> plans;
  std::vector<const plan::Variant *> variants;
  for (uint32_t v = 0; v != 8; ++v) {
    plan::test::Make make;
    make.ranks = 8;
    make.microbatches = 64;
    make.slots = 1 + v;
    plans.push_back(plan::test::makePlan(make));
  }
  for (const plan::Plan &plan : plans)
    variants.push_back(&plan.variants.front());
  adapt::Decider decider(variants);
  size_t candidate = 0;
  int64_t step = 0;
  for (auto _ : state)
    candidate = decider.decide(reportOf(step++, candidate)).to;
  state.counters["of a core at steps of 0.5 s"] =
      benchmark::Counter(0.5, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(decide)->Unit(benchmark::kMillisecond);

/// What measuring adds to an operation of the device, and to a transfer.
void measureOperation(benchmark::State &state) {
  runtime::Meter meter(0);
  adapt::Tally tally;
  plan::Time end = 0;
  for (auto _ : state) {
    tally.add(end % 7, 5, 0);
    benchmark::DoNotOptimize(tally);
    if (tally.count == 64) // the device does after a millisecond of them
      meter.computed(std::exchange(tally, {}), end += 1'000'000);
  }
}
BENCHMARK(measureOperation);

void measureTransfer(benchmark::State &state) {
  runtime::Meter meter(0);
  plan::Time end = 0;
  for (auto _ : state) {
    end += 10'000'000;
    meter.transferred(1, end - 1'000'000, end, 1000, 4096);
  }
}
BENCHMARK(measureTransfer);

} // namespace
BENCHMARK_MAIN();
