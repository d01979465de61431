// Whole runs of small plans whose ranks have shards, as forked processes.
#include "runtime/launch/Local.h"
#include "runtime/plan/Provider.h"
#include "runtime/simulate/Steps.h"
#include "test/launch/TempFolder.h"
#include "test/plan/MakeShards.h"

#include <csignal>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <map>
#include <spdlog/spdlog.h>

using namespace pipec;
using namespace pipec::runtime;
using plan::test::makeShards;
using plan::test::Sharded;

extern "C" const char *__tsan_default_options();
extern "C" const char *__tsan_default_options() { return "report_thread_leaks=0"; }

namespace {

constexpr plan::Time kMs = 1'000'000'000;
constexpr std::pair<int32_t, int32_t> kShapes[] = {{1, 4}, {2, 2}}; // ranks and shards

plan::test::Make small(int32_t ranks) {
  plan::test::Make make;
  make.ranks = ranks;
  make.microbatches = 4;
  make.forward = 4 * kMs;
  make.backwardInput = 5 * kMs;
  make.backwardWeight = 3 * kMs;
  make.optimizerCost = 2 * kMs;
  make.transfer = kMs / 10;
  make.boundary = 4096;
  return make;
}

Sharded sharded(int32_t ranks, int32_t shards, std::vector<int64_t> factors = {}) {
  Sharded how;
  how.make = small(ranks);
  how.shards = shards;
  how.sum = kMs / 10;
  how.factors = std::move(factors);
  return how;
}

constexpr int64_t kOne = plan::Own::kWhole;
const std::vector<int64_t> kSlow{kOne, 3 * kOne}; // the second process

RunOptions options(int64_t steps, Pace pace) {
  RunOptions result;
  result.steps = steps;
  result.pace = pace;
  result.deadline = result.rendezvous = 600'000'000'000'000; // 10 minutes
  return result;
}

Status run(const plan::Plan &plan, const RunOptions &options, LocalResult &result,
           const std::optional<Manifest> &resume = {}, int64_t swapEvery = 0,
           const std::function<void(const LocalResult &)> &started = {}) {
  spdlog::set_level(spdlog::level::warn);
  LocalSetup setup;
  setup.plan = std::make_shared<plan::Plan>(plan);
  setup.options = options;
  setup.resume = resume;
  setup.swapEvery = swapEvery;
  return runLocal(setup, started, result);
}

/// A step is off by no more than an operation was late.
void expectSteps(const LocalResult &result, const std::vector<plan::Time> &expected) {
  const std::vector<plan::Time> measured = measuredSteps(result.run.ranks, 0, int64_t(expected.size()));
  plan::Time latest = 0;
  for (const RankReport &process : result.run.ranks)
    latest = std::max(latest, process.lateness.max());
  for (size_t s = 0; s < expected.size(); ++s)
    EXPECT_LE(std::abs(measured[s] - expected[s]), latest + 1'000'000) << "step " << s;
}

void expectSimulated(const plan::Plan &plan, int64_t steps,
                     const std::shared_ptr<const simulate::Scenario> &network = nullptr) {
  LocalResult result;
  RunOptions o = options(steps, Pace::Carry);
  o.network = network;
  const Status status = run(plan, o, result);
  ASSERT_TRUE(status.ok()) << status.message;
  simulate::Options simulated;
  simulated.steps = steps;
  simulated.scenario = network.get();
  std::vector<plan::Time> expected;
  ASSERT_TRUE(simulate::stepTimes(plan.variants.front(), simulated, expected).ok());
  expectSteps(result, expected);
}

TEST(ShardedRun, CarryTakesTheSimulatedTime) {
  for (const auto &[ranks, shards] : kShapes) {
    Sharded how = sharded(ranks, shards, kSlow);
    expectSimulated(makeShards(how), 3);
    how.make.norm = how.make.split = how.exchange = true;
    expectSimulated(makeShards(how), 3);
  }
}

TEST(ShardedRun, AScenarioSlowsAShard) {
  auto network = std::make_shared<simulate::Scenario>();
  network->slow[0] = {{30 * kMs, simulate::kNever, 400, 0}};
  for (const auto &[ranks, shards] : kShapes)
    expectSimulated(makeShards(sharded(ranks, shards, kSlow)), 3, network);
}

TEST(ShardedRun, WithoutCarriedTimesItRunsToo) {
  const plan::Plan plan = makeShards(sharded(2, 2, kSlow));
  LocalResult result;
  const Status status = run(plan, options(2, Pace::Naive), result);
  ASSERT_TRUE(status.ok()) << status.message;
  for (const plan::Time step : measuredSteps(result.run.ranks, 0, 2))
    EXPECT_GE(step, 4 * (4 + 5 + 3) * 3 * kMs);
}

/// Two variants, under which other shards are slow and own more.
plan::Plan twoVariants(int32_t ranks, int32_t shards) {
  plan::Plan plan = makeShards(sharded(ranks, shards, kSlow));
  plan::Variant other = makeShards(sharded(ranks, shards, {2 * kOne, kOne})).variants.front();
  other.name = "other";
  other.balance = R"({"name": "auto"})";
  const int64_t units = other.portions.front().units;
  for (plan::Portion &each : other.portions) { // all of the first shard's to the last, but for one unit
    const bool first = each.shard == 0, last = each.shard + 1 == shards;
    each.owned.clear();
    if (first)
      each.owned = {{3, 1}};
    else if (last)
      each.owned = {{0, 3}, {4, units - 4}};
    each.worked = each.owned;
    each.kept = plan::unitsIn(each.worked);
  }
  plan.variants.push_back(other);
  return plan;
}

TEST(ShardedRun, SwapsToOtherPortionsTakeTheSimulatedTime) {
  for (const auto &[ranks, shards] : kShapes) {
    const plan::Plan plan = twoVariants(ranks, shards);
    LocalResult result;
    const Status status = run(plan, options(9, Pace::Carry), result, {}, 3);
    ASSERT_TRUE(status.ok()) << status.message;
    std::vector<simulate::Stretch> stretches;
    for (size_t e = 0; e < result.run.epochs.size(); ++e) {
      const Epoch &epoch = result.run.epochs[e];
      const int64_t end = e + 1 < result.run.epochs.size() ? result.run.epochs[e + 1].from : 9;
      stretches.push_back({&plan.variants[size_t(epoch.program)], end - epoch.from});
    }
    EXPECT_GE(stretches.size(), 2u);
    std::vector<plan::Time> expected;
    ASSERT_TRUE(simulate::stepTimes(stretches, nullptr, expected).ok());
    expectSteps(result, expected);
  }
}

TEST(ShardedRun, ReportsAndTracesSayWhatIsEachShardsOwn) {
  const plan::Plan plan = makeShards(sharded(2, 2, kSlow));
  RunOptions o = options(2, Pace::Carry);
  o.trace = true;
  LocalResult result;
  ASSERT_TRUE(run(plan, o, result).ok());
  constexpr plan::Time kStep = (4 * (4 + 5 + 3) + 2) * kMs;
  for (size_t process = 0; process < 4; ++process) {
    const std::vector<OwnTimes> &own = result.run.ranks[process].own;
    ASSERT_EQ(own.size(), 2u);
    EXPECT_EQ(own[1].own, process == 1 ? 3 * kStep : kStep);
    EXPECT_EQ(own[1].planned, kStep);
  }
  std::map<int32_t, std::pair<plan::Time, plan::Time>> traced, simulated; // by process: computing, and waiting
  for (const trace::Event &event : result.events) {
    traced[event.rank].first += event.own;
    traced[event.rank].second += event.waited;
  }
  simulate::Options observed;
  observed.steps = 2;
  observed.observe = [&](const simulate::Event &event) {
    if (plan::isBusy(event.operation->kind)) {
      simulated[event.place].first += event.own;
      simulated[event.place].second += event.waited;
    }
  };
  simulate::Result ignored;
  ASSERT_TRUE(simulate::simulate(plan.variants.front(), observed, ignored).ok());
  EXPECT_EQ(traced, simulated);
  const std::string path = testing::TempDir() + "shards.json";
  std::vector<Layout> layouts;
  for (int32_t process = 0; process < 4; ++process)
    layouts.push_back(layoutOf(plan, process));
  ASSERT_TRUE(writeTrace(path, layouts, result.events).ok());
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(text.find(R"("pid":3,"args":{"name":"rank 1 shard 1"})"), std::string::npos);
  EXPECT_NE(text.find(R"("shard":1,"own_ms":12,"wait_ms":0)"), std::string::npos);
}

TEST(ShardedRun, AShardThatIsKilledIsNamed) {
  const plan::Plan plan = makeShards(sharded(2, 2));
  LocalResult result;
  const Status status = run(plan, options(1'000'000, Pace::Carry), result, {}, 0,
                            [](const LocalResult &now) { ::kill(now.pids[1], SIGKILL); });
  EXPECT_EQ(status.code, Code::Run);
  EXPECT_NE(status.message.find("rank 0 shard 1 (pid "), std::string::npos) << status.message;
  EXPECT_NE(status.message.find("was killed by signal 9"), std::string::npos) << status.message;
}

TEST(ShardedRun, AShardThatIsStuckIsNamedWithTheSum) {
  const plan::Plan plan = makeShards(sharded(1, 3));
  RunOptions o = options(1'000'000, Pace::Carry);
  o.deadline = 2'000 * kMs;
  LocalResult result;
  const Status status = run(plan, o, result, {}, 0, [](const LocalResult &now) { ::kill(now.pids[1], SIGSTOP); });
  EXPECT_EQ(status.code, Code::Run);
  EXPECT_NE(status.message.find(": meeting 1: rank 0 shard 1 did not come to it"), std::string::npos) << status.message;
  EXPECT_NE(status.message.find("did not answer and was killed"), std::string::npos) << status.message;
}

constexpr int64_t kSteps = 30;

class ShardedTraining : public test::TempFolder {
protected:
  static plan::Plan planOf(plan::Plan plan, const char *provider = R"({"why": "a test"})") {
    EXPECT_TRUE(plan::providerOf(provider, plan.provider).ok());
    return plan;
  }
  RunOptions optionsOf(int64_t steps, const std::string &into) {
    RunOptions o = options(steps, Pace::Real);
    o.stage = PIPEC_SHARED;
    o.checkpoint = folder + "/" + into;
    EXPECT_TRUE(prepareFolder(o.checkpoint).ok());
    return o;
  }
  /// By stage and unit.
  using Weights = std::map<double, std::vector<double>>;
  Weights weights(const plan::Plan &plan, const std::string &in) {
    Weights all;
    Manifest manifest;
    const Status status = readManifest(folder + "/" + in, plan, manifest);
    EXPECT_TRUE(status.ok()) << status.message;
    for (const StateFile &state : manifest.files) {
      std::ifstream file(folder + "/" + in + "/" + state.name, std::ios::binary);
      const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
      std::vector<double> numbers(bytes.size() / 8);
      if (!numbers.empty()) // a shard may own none
        std::memcpy(numbers.data(), bytes.data(), 8 * numbers.size());
      for (size_t at = 0; at + 6 <= numbers.size(); at += 6)
        EXPECT_TRUE(all.emplace(numbers[at],
                                std::vector(numbers.begin() + ptrdiff_t(at) + 1, numbers.begin() + ptrdiff_t(at) + 6))
                        .second)
            << "unit " << numbers[at] << " has two owners";
    }
    return all;
  }
  Weights train(const plan::Plan &plan, int64_t swapEvery = 0) {
    const std::string into = std::to_string(runs++);
    LocalResult result;
    const Status status = run(plan, optionsOf(kSteps, into), result, {}, swapEvery);
    EXPECT_TRUE(status.ok()) << status.message;
    EXPECT_GE(result.run.epochs.size(), swapEvery > 0 ? 3u : 1u);
    return status.ok() ? weights(plan, into) : Weights();
  }
  int runs = 0;
};

TEST_F(ShardedTraining, GivesTheSameWeightsWhateverTheShardsAndWhoOwnsWhat) {
  const Weights two = train(planOf(makeShards(sharded(1, 2))));
  EXPECT_EQ(two.size(), 8u);
  EXPECT_EQ(train(planOf(makeShards(sharded(1, 4)))), two);
  EXPECT_EQ(train(planOf(twoVariants(1, 3)), 3), two);
  const Weights ranks = train(planOf(makeShards(sharded(2, 2))));
  EXPECT_EQ(ranks.size(), 16u);
  EXPECT_EQ(train(planOf(twoVariants(2, 2)), 3), ranks);
}

TEST_F(ShardedTraining, GoesOnUnderOtherPortionsOnceAShardWasKilled) {
  plan::Plan plan = planOf(twoVariants(2, 2));
  const Weights expected = train(planOf(makeShards(sharded(2, 2))));
  LocalSetup setup;
  setup.plan = std::make_shared<plan::Plan>(plan);
  setup.options = optionsOf(kSteps, "killed");
  setup.options.every = 5;
  setup.swapEvery = 4;
  std::vector<pid_t> pids;
  setup.progressed = [&](int64_t step) {
    if (step >= 18 && !pids.empty())
      ::kill(std::exchange(pids, {})[1], SIGKILL);
  };
  setup.options.steps = 1'000'000;
  LocalResult result;
  const Status status = runLocal(setup, [&](const LocalResult &now) { pids = now.pids; }, result);
  EXPECT_EQ(status.code, Code::Run);
  std::swap(plan.variants[0], plan.variants[1]);
  Manifest manifest;
  ASSERT_TRUE(readManifest(setup.options.checkpoint, plan, manifest).ok());
  EXPECT_EQ(manifest.shards, 2);
  EXPECT_EQ(manifest.owned.size(), 4u);
  const int64_t steps = std::max(manifest.step, kSteps);
  RunOptions o = optionsOf(steps, "killed");
  const Status resumed = run(plan, o, result, manifest);
  ASSERT_TRUE(resumed.ok()) << resumed.message;
  EXPECT_TRUE(steps > kSteps || weights(plan, "killed") == expected);
}

TEST_F(ShardedTraining, RestartsFromACheckpoint) {
  const plan::Plan plan = planOf(twoVariants(1, 3));
  const Weights expected = train(plan);
  LocalSetup setup;
  setup.plan = std::make_shared<plan::Plan>(plan);
  setup.options = optionsOf(kSteps, "killed");
  setup.options.every = 5;
  setup.swapEvery = 3;
  setup.restarts = 1;
  std::vector<pid_t> pids;
  setup.progressed = [&](int64_t step) {
    if (step >= 12 && !pids.empty())
      ::kill(std::exchange(pids, {})[2], SIGKILL);
  };
  LocalResult result;
  bool begun = false;
  const Status status = runLocal(
      setup, [&](const LocalResult &now) { pids = std::exchange(begun, true) ? std::vector<pid_t>() : now.pids; },
      result);
  ASSERT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(weights(plan, "killed"), expected);
  Manifest manifest;
  const auto says = [&](const plan::Plan &other) {
    const Status refused = readManifest(setup.options.checkpoint, other, manifest);
    EXPECT_EQ(refused.code, Code::Input);
    return refused.message;
  };
  EXPECT_NE(says(makeShards(sharded(1, 2))).find("is of 3 shards of each rank, the plan has 2"), std::string::npos);
  EXPECT_NE(says(plan::test::makePlan(small(1))).find("is of 3 shards of each rank, the plan has 1"),
            std::string::npos);
  Sharded more = sharded(1, 3);
  more.units = 9;
  EXPECT_NE(says(makeShards(more)).find("splits the layers of its stages in another way than the plan"),
            std::string::npos);
}

/// Who is slow by a scenario computes on; who waits for it does not.
TEST_F(ShardedTraining, AScenarioStretchesTheOwnTimeOfALibrary) {
  const plan::Plan plan = planOf(makeShards(sharded(1, 2)), R"({"how": "slow"})");
  auto network = std::make_shared<simulate::Scenario>();
  network->slow[0] = {{0, simulate::kNever, 1000, 1}};
  RunOptions o = optionsOf(3, "slow");
  o.network = network;
  LocalResult result;
  const Status status = run(plan, o, result);
  ASSERT_TRUE(status.ok()) << status.message;
  plan::Time own[2] = {0, 0};
  for (size_t process = 0; process < 2; ++process)
    for (const OwnTimes &step : result.run.ranks[process].own)
      own[process] += step.own;
  EXPECT_GT(own[1], own[0]);
}

} // namespace
