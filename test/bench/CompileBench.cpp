// The whole compile, from the YAML's bytes to the plan's, verification and emission included, beside a fixed piece of
// work: building and walking a list of as many nodes as the programs have ops, 200 bytes each, which is what memory
// alone costs.
//   ninja -C build/release bench-compile && build/release/bin/bench-compile
#include "compiler/driver/Compile.h"

#include <benchmark/benchmark.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <list>
#include <unistd.h>

namespace {

/// The schedule over ranks × microbatches, in a file of its own.
std::string specFile(const char *schedule, int chunks, int64_t ranks, int64_t microbatches) {
  auto path = std::filesystem::temp_directory_path() / ("pipec-bench-" + std::to_string(getpid()) + ".yaml");
  std::ofstream(path) << "pipec: 1\npipeline: {ranks: " << ranks << ", stages_per_rank: " << chunks
                      << ", microbatches: " << microbatches
                      << "}\ncosts: {forward: 10ms, backward: 20ms, link: {latency: 20us, bandwidth: 12.5GB/s}}\n"
                         "tensors: {boundary: 16MiB, activation: 1GiB, weight_context: 300MiB}\nschedule: "
                      << schedule << "\n";
  return path;
}

void compile(benchmark::State &state, const char *schedule, int chunks) {
  std::string path = specFile(schedule, chunks, state.range(0), state.range(1));
  size_t bytes = 0;
  for (auto _ : state) {
    pipec::Compiled compiled;
    pipec::Failure failure;
    if (!pipec::compile(path, {}, pipec::Stage::Plan, compiled, failure))
      return state.SkipWithError(failure.message.c_str());
    bytes = compiled.bytes.size();
  }
  state.counters["plan_bytes"] = double(bytes);
  std::filesystem::remove(path);
}

void memoryAlone(benchmark::State &state) {
  int64_t ops = state.range(0) * state.range(1) * 6;
  for (auto _ : state) {
    std::list<std::array<int64_t, 23>> nodes;
    for (int64_t i = 0; i != ops; ++i)
      nodes.push_back({i});
    int64_t sum = 0;
    for (const auto &node : nodes)
      sum += node[0];
    benchmark::DoNotOptimize(sum);
  }
}

} // namespace

BENCHMARK_CAPTURE(compile, 1f1b, "1f1b", 1)
    ->Args({8, 32})
    ->Args({64, 1024})
    ->Args({64, 4096})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(compile, interleaved_v4, "interleaved-1f1b", 4)->Args({64, 1024})->Unit(benchmark::kMillisecond);
BENCHMARK(memoryAlone)->Args({64, 1024})->Args({64, 4096})->Unit(benchmark::kMillisecond);

BENCHMARK_MAIN();
