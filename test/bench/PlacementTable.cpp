// What the placement of transfers costs: PyTorch's schedules under each communicator, makespans as multiples of the
// ideal one (same order and links, queues never held), transfers placed by pipec and as PyTorch places and runs them;
// and the steps of PyTorch's own dry run of either.
//   ninja -C build/release bench-placement && build/release/bin/bench-placement [RANKS…]
#include "test/transfers/PyTorchSchedules.h"

#include <chrono>
#include <cstdlib>
#include <fmt/format.h>

using namespace pipec;
using namespace pipec::test;

namespace {

std::string multiple(std::optional<plan::Time> time, plan::Time ideal) {
  return time ? fmt::format("{:.4f}", double(*time) / double(ideal)) : "stops";
}

void row(mlir::MLIRContext &context, const PyTorchCase &each, Queues queues) {
  std::string errors;
  const auto begin = std::chrono::steady_clock::now();
  const std::optional<Lowered> ours = lower(context, each, queues, errors);
  const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - begin;
  if (!ours) {
    fmt::print("{}: {}", each.schedule.name, errors);
    return;
  }
  const TorchRows torch = placedByTorch(each.problem, each.words), own = rowsOf(ours->variant);
  size_t instructions = 0;
  for (const plan::Program &program : ours->variant.programs)
    instructions += program.instructions.size();
  fmt::print("| {:16} | {} | {:3} | {:8} | {} | {} | {} | {} | {} | {} | {:.0f} |\n", each.schedule.name,
             each.schedule.chunks, each.problem.ranks, nameOf(queues), multiple(ours->result.makespan, each.ideal),
             multiple(makespanOf(asTorchRuns(each.problem, own, queues)), each.ideal),
             multiple(makespanOf(asTorchRuns(each.problem, torch, queues)), each.ideal), torchSteps(each.problem, own),
             torchSteps(each.problem, torch), instructions, taken.count());
  std::fflush(stdout);
}

} // namespace

int main(int argc, char **argv) {
  std::vector<int32_t> ranks;
  for (int i = 1; i < argc; ++i)
    ranks.push_back(std::atoi(argv[i]));
  if (ranks.empty())
    ranks = {8, 16, 32, 64};
  fmt::print("| schedule | v | p | communicator | pipec | pipec's rows as PyTorch runs them | PyTorch | steps: pipec | "
             "PyTorch "
             "| rolled instructions | compiled in ms |\n|---|---|---|---|---|---|---|---|---|---|---|\n");
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  for (const PyTorchSchedule &schedule : pyTorchSchedules())
    for (int32_t p : ranks) {
      const PyTorchCase each = caseOf(schedule, p);
      for (Queues queues : {Queues::PerEdge, Queues::PerPair, Queues::Shared})
        row(context, each, queues);
    }
}
