// Plans for transfers that start in the order of issue, over the catalogue: placed for that, none is slower than placed
// for other queues and run so.
#include "compiler/driver/Compile.h"
#include "compiler/driver/Files.h"
#include "compiler/schedule/catalogue/Catalogue.h"
#include "runtime/simulate/Simulate.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>

namespace pipec::test {
namespace {

constexpr plan::Time kNever = std::numeric_limits<plan::Time>::max();

std::optional<plan::Variant> compiled(const std::string &schedule, const char *link, const char *communicator) {
  keep("launch.yaml", fmt::format("pipec: 1\npipeline: {{ranks: 4, microbatches: 8}}\n"
                                  "costs: {{forward: 2ms, backward_input: 2ms, backward_weight: 2ms, backward: 4ms, "
                                  "overlapped: 5ms, link: {}}}\ntensors: {{boundary: 1MB, activation: 1MB}}\n"
                                  "schedule: {}\ncommunicator: {}\n",
                                  link, schedule, communicator));
  Compiled made;
  Failure failure;
  if (!compile("launch.yaml", {}, Stage::Plan, made, failure, Said::Nothing))
    return std::nullopt;
  return made.plan.variants.front();
}

plan::Time stepOf(const plan::Variant &variant, simulate::Launch launch) {
  simulate::Options options;
  options.launch = launch;
  simulate::Result result;
  plan::Time span = 0;
  return simulate::span(variant, span, result, options).ok() ? span : kNever;
}

TEST(LaunchOrder, PlacedForItNoPlanIsSlower) {
  int compared = 0, longer = 0;
  for (const char *link : {"{latency: 0us, bandwidth: 100GB/s}", "{latency: 200us, bandwidth: 2GB/s}",
                           "{latency: 20us, bandwidth: 500MB/s}"})
    for (const schedule::Entry &entry : schedule::catalogue()) {
      const std::string name(entry.name);
      const std::optional<plan::Variant> own = compiled(name, link, "launch_order");
      const std::optional<plan::Variant> edge = compiled(name, link, "per_edge"),
                                         shared = compiled(name, link, "shared");
      ASSERT_EQ(own.has_value(), edge.has_value()) << name;
      if (!own || !shared)
        continue;
      EXPECT_TRUE(own->launchOrder);
      const plan::Time its = stepOf(*own, simulate::Launch::AsPlanned);
      EXPECT_EQ(its, own->certificate.span) << name;
      EXPECT_LE(stepOf(*own, simulate::Launch::InAnyOrder), its) << name;
      EXPECT_LE(its, stepOf(*edge, simulate::Launch::InOrder)) << name << " " << link << ": placed for per_edge";
      EXPECT_LE(its, stepOf(*shared, simulate::Launch::InOrder)) << name << " " << link << ": placed for shared";
      ++compared;
      longer += stepOf(*edge, simulate::Launch::InOrder) > edge->certificate.span;
    }
  EXPECT_GT(compared, 30);
  EXPECT_GT(longer, 5);
}

} // namespace
} // namespace pipec::test
