// Loading: decoding, every rule and the walk of a rolled plan, by executed instruction, beside the walk with a cursor
// alone.
//   ninja -C build/release bench-plan && build/release/bin/bench-plan
#include "runtime/plan/Load.h"
#include "runtime/plan/Write.h"
#include "runtime/simulate/Simulate.h"
#include "test/plan/MakeShards.h"

#include <benchmark/benchmark.h>

using namespace pipec;

namespace {

/// Ranks, microbatches and shards of a rank.
plan::Plan makePlan(const benchmark::State &state) {
  const plan::test::Make make{.ranks = int32_t(state.range(0)), .microbatches = int32_t(state.range(1))};
  const auto shards = int32_t(state.range(2));
  return shards == 1 ? plan::test::makePlan(make) : plan::test::makeShards({.make = make, .shards = shards});
}

int64_t executed(const plan::Plan &plan) {
  int64_t count = 0;
  for (const plan::Program &program : plan.variants.front().programs)
    count += plan::executed(program) * plan.shards();
  return count;
}

void cursorAlone(benchmark::State &state) {
  plan::Plan plan = makePlan(state);
  for (auto _ : state) {
    int64_t sum = 0;
    for (const plan::Program &program : plan.variants.front().programs)
      for (plan::Cursor cursor(program); !cursor.done(); cursor.next())
        sum += cursor.at().microbatch();
    benchmark::DoNotOptimize(sum);
  }
  state.SetItemsProcessed(state.iterations() * executed(plan));
}

void decode(benchmark::State &state) {
  std::vector<uint8_t> bytes = plan::encode(makePlan(state));
  for (auto _ : state) {
    plan::Plan plan;
    if (!plan::decode(bytes, plan).ok())
      return state.SkipWithError("refused");
  }
  state.SetBytesProcessed(state.iterations() * int64_t(bytes.size()));
}

void verify(benchmark::State &state) {
  plan::Plan plan = makePlan(state);
  for (auto _ : state)
    if (!plan::verify(plan).ok())
      return state.SkipWithError("refused");
  state.SetItemsProcessed(state.iterations() * executed(plan));
}

void walk(benchmark::State &state) {
  plan::Plan plan = makePlan(state);
  for (auto _ : state) {
    simulate::Result result;
    if (!simulate::simulate(plan.variants.front(), {}, result).ok())
      return state.SkipWithError("stopped");
  }
  state.SetItemsProcessed(state.iterations() * executed(plan));
}

} // namespace

BENCHMARK(cursorAlone)->Args({64, 1024, 1})->Unit(benchmark::kMillisecond);
BENCHMARK(decode)->Args({64, 1024, 1})->Args({64, 1024, 8})->Unit(benchmark::kMillisecond);
BENCHMARK(verify)->Args({64, 1024, 1})->Args({64, 1024, 8})->Unit(benchmark::kMillisecond);
BENCHMARK(walk)->Args({64, 1024, 1})->Args({64, 1024, 8})->Unit(benchmark::kMillisecond);

BENCHMARK_MAIN();
