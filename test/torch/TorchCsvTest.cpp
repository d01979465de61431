// An exported order runs in PyTorch as the plan was predicted to: its cells as programs (a transfer waits for every
// pass before it in its row), with the plan's costs, take at most a 20th longer than the plan.
#include "compiler/torch/TorchCsv.h"
#include "compiler/driver/Compile.h"
#include "compiler/schedule/catalogue/Catalogue.h"
#include "compiler/torch/OrderFlow.h"
#include "compiler/torch/OrderPrograms.h"
#include "runtime/simulate/Simulate.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <random>
#include <unistd.h>

namespace pipec::emit::test {
namespace {

constexpr const char *kCommunicators[] = {"per_edge", "per_pair", "launch_order",
                                          "shared"}; // in the order of Communicator

bool compiled(const std::string &schedule, int ranks, int microbatches, int perRank, const char *communicator,
              plan::Variant &variant, const char *costs = "") {
  const std::string path = fmt::format("{}torch-csv-test-{}.yaml", testing::TempDir(), ::getpid());
  std::ofstream(path) << fmt::format(
      "pipec: 1\npipeline: {{ranks: {}, microbatches: {}{}}}\n"
      "costs: {{forward: 10ms, backward_input: 11ms, backward_weight: 8ms{}, link: {{latency: 30us, bandwidth: "
      "10GB/s}}}}\n"
      "tensors: {{boundary: 16MiB, activation: 64MiB, weight_context: 16MiB}}\nschedule: {}\ncommunicator: {}\n",
      ranks, microbatches, perRank ? fmt::format(", stages_per_rank: {}", perRank) : "", costs, schedule, communicator);
  Compiled made;
  Failure failure;
  const bool compiles = compile(path, {}, Stage::Plan, made, failure, Said::Nothing);
  std::filesystem::remove(path);
  if (!compiles)
    return false;
  variant = std::move(made.plan.variants.front());
  return true;
}

/// The cost that the plan gives what an order's operation does.
void takeCosts(const plan::Program &from, plan::Program &to) {
  for (plan::Operation &operation : to.operations)
    for (const plan::Operation &known : from.operations)
      if (known.kind == operation.kind && known.of == operation.of && known.stage == operation.stage &&
          known.kind != plan::Kind::Optimizer) {
        operation.cost = known.cost;
        operation.latency = known.latency;
      }
}

plan::Time runAsPyTorch(const plan::Variant &variant, schedule::TorchRelease release, Communicator communicator) {
  schedule::OrderCells cells;
  schedule::OrderIndex index;
  schedule::OrderError error;
  const Status status = torchCells(variant, schedule::OrderFormat::ComputeComms, release, cells);
  EXPECT_TRUE(status.ok()) << status.message;
  // As its reader sees it.
  schedule::OrderCells read;
  const std::string text = torchCsv(cells);
  EXPECT_TRUE(readCells(text, read, error) && checkCells(read, index, error)) << error.message << "\n" << text;
  OrderPrograms programs(read, index, communicator);
  for (size_t rank = 0; rank != variant.programs.size(); ++rank)
    takeCosts(variant.programs[rank], programs.variant.programs[rank]);
  simulate::Result result;
  EXPECT_TRUE(simulate::simulate(programs.variant, {}, result).ok());
  return result.makespan;
}

} // namespace

TEST(TorchCsv, RunsAsPredicted) {
  int compared = 0;
  for (const schedule::Entry &entry : schedule::catalogue())
    for (const auto &[ranks, microbatches, perRank] :
         {std::tuple(2, 4, 0), std::tuple(4, 8, 0), std::tuple(4, 8, 2), std::tuple(3, 9, 3)})
      for (int communicator = 0; communicator != 3; ++communicator) {
        plan::Variant variant;
        if (!compiled(std::string(entry.name), ranks, microbatches, perRank, kCommunicators[communicator], variant))
          continue;
        if (variant.copies > 1) {
          schedule::OrderCells cells;
          EXPECT_EQ(
              torchCells(variant, schedule::OrderFormat::ComputeOnly, schedule::TorchRelease::V2_15, cells).message,
              "PyTorch's order files have each stage on one rank, here two copies of it are on two");
          continue;
        }
        ++compared;
        for (auto release : {schedule::TorchRelease::V2_8, schedule::TorchRelease::V2_15})
          EXPECT_LE(20 * runAsPyTorch(variant, release, static_cast<Communicator>(communicator)),
                    21 * variant.certificate.makespan)
              << entry.name << " " << ranks << " x " << microbatches << " " << kCommunicators[communicator];
      }
  EXPECT_GE(compared, 30);
}

/// A plan's overlapped pairs are the file's, of releases that have them; what its reader makes of it has them again.
TEST(TorchCsv, PairsArePairs) {
  for (const char *communicator : kCommunicators) {
    plan::Variant variant;
    ASSERT_TRUE(compiled("dualpipe-v", 4, 10, 0, communicator, variant, ", overlapped: 25ms"));
    int64_t planned = 0;
    for (const plan::Program &program : variant.programs)
      for (plan::Cursor cursor(program); !cursor.done(); cursor.next())
        planned += cursor.at().operation->kind == plan::Kind::Overlapped;
    EXPECT_GT(planned, 20);
    for (const auto &[format, release, expected] :
         {std::tuple(schedule::OrderFormat::ComputeOnly, schedule::TorchRelease::V2_8, int64_t(0)),
          {schedule::OrderFormat::ComputeComms, schedule::TorchRelease::V2_8, int64_t(0)},
          {schedule::OrderFormat::ComputeOnly, schedule::TorchRelease::V2_15, planned},
          {schedule::OrderFormat::ComputeComms, schedule::TorchRelease::V2_10, planned},
          {schedule::OrderFormat::ComputeComms, schedule::TorchRelease::V2_15, planned}}) {
      schedule::OrderCells cells, read;
      schedule::OrderIndex index;
      schedule::OrderError error;
      const Status status = torchCells(variant, format, release, cells);
      ASSERT_TRUE(status.ok()) << status.message;
      const std::string text = torchCsv(cells);
      ASSERT_TRUE(readCells(text, read, error) && checkCells(read, index, error)) << error.message << "\n" << text;
      int64_t found = 0;
      for (const auto &row : read.rows)
        found += std::count_if(row.begin(), row.end(), [](const schedule::Cell &cell) { return cell.opensPair; });
      EXPECT_EQ(found, expected);
      EXPECT_EQ(read.pairs, expected > 0);
    }
  }
}

/// Whether an order ends is found by order alone as by a run in time: of exported rows with neighbours swapped here and
/// there, so many that some stop on every communicator.
TEST(TorchCsv, OrdersEndByOrderAloneAsInTime) {
  std::mt19937 random(1);
  int ends = 0, stops = 0;
  for (const char *name : {"1f1b", "zb-v", "interleaved-1f1b", "dualpipe-v"}) {
    plan::Variant variant;
    const bool overlaps = std::string_view(name) == "dualpipe-v";
    ASSERT_TRUE(compiled(name, 3, 6, 0, "shared", variant, overlaps ? ", overlapped: 25ms" : ""));
    schedule::OrderCells right;
    ASSERT_TRUE(torchCells(variant, schedule::OrderFormat::ComputeComms, schedule::TorchRelease::V2_15, right).ok());
    for (int round = 0; round != 1000; ++round) {
      schedule::OrderCells cells = right;
      for (int swaps = 1 + int(random() % 12); swaps != 0; --swaps) {
        auto &row = cells.rows[random() % cells.rows.size()];
        const size_t at = random() % (row.size() - 1);
        if (!row[at].opensPair && !row[at + 1].opensPair && (at == 0 || !row[at - 1].opensPair))
          std::swap(row[at], row[at + 1]);
      }
      schedule::OrderIndex index;
      schedule::OrderError error;
      if (!checkCells(cells, index, error))
        continue;
      for (Communicator communicator :
           {Communicator::PerEdge, Communicator::PerPair, Communicator::LaunchOrder, Communicator::Shared}) {
        OrderPrograms programs(cells, index, communicator);
        simulate::Result result;
        const bool inTime = simulate::simulate(programs.variant, {}, result).ok();
        ASSERT_EQ(flows(cells, index, communicator), inTime) << torchCsv(cells);
        ++(inTime ? ends : stops);
      }
    }
  }
  EXPECT_GT(ends, 300);
  EXPECT_GT(stops, 300);
}

TEST(TorchCsv, RefusesWhatTheFormatCannotCarry) {
  plan::Variant variant;
  ASSERT_TRUE(compiled("1f1b", 2, 4, 0, "shared", variant));
  schedule::OrderCells cells;
  for (plan::Program &program : variant.programs)
    for (plan::Operation &operation : program.operations)
      if (operation.kind == plan::Kind::Backward)
        operation.kind = plan::Kind::Optimizer;
  EXPECT_EQ(torchCells(variant, schedule::OrderFormat::ComputeOnly, schedule::TorchRelease::V2_15, cells).message,
            "PyTorch's order files are of training: each forward in them has a backward, here none has");
  variant.slices = 2;
  EXPECT_EQ(torchCells(variant, schedule::OrderFormat::ComputeOnly, schedule::TorchRelease::V2_15, cells).message,
            "PyTorch's order files have no slices of microbatches");
  variant.slices = 1;
  variant.programs.front().operations.front().kind = plan::Kind::ReduceScatter;
  const Status status = torchCells(variant, schedule::OrderFormat::ComputeComms, schedule::TorchRelease::V2_15, cells);
  EXPECT_EQ(status.code, Code::Input);
  EXPECT_EQ(status.message, "PyTorch's order files have no reduce_scatter");
}

TEST(TorchCsv, FindsReleases) {
  schedule::TorchRelease release;
  for (const char *name : {"2.7", "2.16", "2", "", "2.1", "2.15x", "2.100", "12.8", ".", "2."})
    EXPECT_FALSE(findRelease(name, release)) << name;
  for (const auto &[name, expected] :
       {std::pair("2.8", schedule::TorchRelease::V2_8), std::pair("2.9.1", schedule::TorchRelease::V2_8),
        std::pair("2.10", schedule::TorchRelease::V2_10), std::pair("2.14.0+cu130", schedule::TorchRelease::V2_10),
        std::pair("2.15.0", schedule::TorchRelease::V2_15)}) {
    EXPECT_TRUE(findRelease(name, release)) << name;
    EXPECT_EQ(release, expected) << name;
  }
}

} // namespace pipec::emit::test
