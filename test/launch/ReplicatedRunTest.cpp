// Whole runs of small plans with replicas, as forked processes.
#include "runtime/launch/Local.h"
#include "runtime/plan/Provider.h"
#include "runtime/simulate/Steps.h"
#include "test/launch/TempFolder.h"
#include "test/runtime/Replicated.h"

#include <csignal>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <map>
#include <spdlog/spdlog.h>

using namespace pipec;
using namespace pipec::runtime;
using test::makeReplicated;
using test::Replicated;
using Sums = Replicated::Sums;

extern "C" const char *__tsan_default_options();
extern "C" const char *__tsan_default_options() { return "report_thread_leaks=0"; }

namespace {

constexpr Sums kSums[] = {Sums::AllReduce, Sums::Decoupled, Sums::Sharded};

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
void expectSimulated(const plan::Plan &plan, int64_t steps) {
  LocalResult result;
  const Status status = run(plan, options(steps, Pace::Carry), result);
  ASSERT_TRUE(status.ok()) << status.message;
  simulate::Options simulated;
  simulated.steps = steps;
  std::vector<plan::Time> expected;
  ASSERT_TRUE(simulate::stepTimes(plan.variants.front(), simulated, expected).ok());
  const std::vector<plan::Time> measured = measuredSteps(result.run.ranks, 0, steps);
  plan::Time latest = 0;
  for (const RankReport &process : result.run.ranks)
    latest = std::max(latest, process.lateness.max());
  for (int64_t s = 0; s < steps; ++s)
    EXPECT_LE(std::abs(measured[size_t(s)] - expected[size_t(s)]), latest + 1'000'000) << "step " << s;
}

TEST(ReplicatedRun, CarryTakesTheSimulatedTime) {
  for (const Sums sums : kSums)
    expectSimulated(makeReplicated(Replicated{.ranks = 2, .degree = 3, .sums = sums}), 4);
}

TEST(ReplicatedRun, AShareMayBeEmptyAndAPieceMayCutALayer) {
  expectSimulated(makeReplicated(Replicated{.degree = 4, .piece = 5000, .layerBytes = 12}), 3);
  expectSimulated(makeReplicated(Replicated{.degree = 3, .bundle = 3, .piece = 1700}), 3);
}

TEST(ReplicatedRun, ANetworkSaysWhatACollectiveTakes) {
  const plan::Plan plan = makeReplicated(Replicated{.degree = 2, .bundle = 4, .layerBytes = 1'000'000});
  auto network = std::make_shared<simulate::Scenario>();
  network->replicas = simulate::Scenario::Link{{0, 1'000'000'000, 1'000'000'000}}; // 1 GB/s, 1 ms
  network->degree = 2;
  RunOptions o = options(3, Pace::Carry);
  o.network = network;
  LocalResult result;
  const Status status = run(plan, o, result);
  ASSERT_TRUE(status.ok()) << status.message;
  constexpr plan::Time kMs = 1'000'000'000, kStep = (4 * 2 + 2 * (2 + 1)) * kMs + kMs / 10;
  EXPECT_GE(measuredSteps(result.run.ranks, 0, 3).front(), kStep);
}

TEST(ReplicatedRun, TracesSayWhichReplica) {
  const plan::Plan plan = makeReplicated(Replicated{.ranks = 2, .degree = 2});
  RunOptions o = options(1, Pace::Naive);
  o.trace = true;
  LocalResult result;
  ASSERT_TRUE(run(plan, o, result).ok());
  std::map<int32_t, int> sums; // by process
  for (const trace::Event &event : result.events)
    sums[event.rank] += event.kind == plan::Kind::AllReduce;
  EXPECT_EQ(sums, (std::map<int32_t, int>{{0, 4}, {1, 4}, {2, 4}, {3, 4}}));
  const std::string path = testing::TempDir() + "replicas.json";
  ASSERT_TRUE(
      writeTrace(path, {layoutOf(plan, 0), layoutOf(plan, 1), layoutOf(plan, 2), layoutOf(plan, 3)}, result.events)
          .ok());
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(text.find(R"("pid":3,"args":{"name":"rank 1 replica 1"})"), std::string::npos);
  EXPECT_NE(text.find(R"("replica":1)"), std::string::npos);
}

TEST(ReplicatedRun, AReplicaThatIsKilledIsNamed) {
  const plan::Plan plan = makeReplicated(Replicated{.ranks = 2, .degree = 2});
  LocalResult result;
  const Status status = run(plan, options(1'000'000, Pace::Carry), result, {}, 0,
                            [](const LocalResult &now) { ::kill(now.pids[3], SIGKILL); });
  EXPECT_EQ(status.code, Code::Run);
  EXPECT_NE(status.message.find("rank 1 replica 1 (pid "), std::string::npos) << status.message;
  EXPECT_NE(status.message.find("was killed by signal 9"), std::string::npos) << status.message;
}

constexpr const char *kProvider = R"({"hidden": 8, "samples": 4, "seed": 1, "rate": 0.5)";
constexpr plan::Bytes kLayer = (8 + 1) * 8 * 4, kBoundary = 4 * 8 * 4;
constexpr int64_t kSteps = 50;
constexpr std::pair<int32_t, int32_t> kShapes[] = {{1, 4}, {2, 2}, {4, 2}}; // ranks and replicas

/// A model of 8 layers and 8 microbatches, on whatever processes.
Replicated trained(int32_t ranks, int32_t degree) {
  return {.ranks = ranks,
          .degree = degree,
          .microbatches = 8 / degree,
          .layers = 8 / ranks,
          .layerBytes = kLayer,
          .boundary = kBoundary};
}

class ReplicatedTraining : public test::TempFolder {
protected:
  plan::Plan planOf(const Replicated &p, const std::string &more = "") {
    plan::Plan plan = makeReplicated(p);
    EXPECT_TRUE(plan::providerOf(std::string(kProvider) + more + "}", plan.provider).ok());
    return plan;
  }
  RunOptions optionsOf(int64_t steps, const std::string &into) {
    RunOptions o = options(steps, Pace::Real);
    o.stage = library;
    o.checkpoint = folder + "/" + into;
    EXPECT_TRUE(prepareFolder(o.checkpoint).ok());
    return o;
  }
  /// The weights of all layers; all replicas have the same. A file has for each layer a header and its weights.
  std::vector<double> weights(const plan::Plan &plan, const std::string &in) {
    std::vector<std::vector<double>> each(size_t(plan.degree()));
    Manifest manifest;
    const Status status = readManifest(folder + "/" + in, plan, manifest);
    EXPECT_TRUE(status.ok()) << status.message;
    for (size_t world = 0; world < manifest.files.size(); ++world) {
      std::ifstream file(folder + "/" + in + "/" + manifest.files[world].name, std::ios::binary);
      const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
      const plan::Bytes ofLayer = plan.variants.front().layers.front().gradients;
      for (size_t at = header; at < bytes.size(); at += header + size_t(ofLayer))
        for (size_t i = 0; i < size_t(ofLayer); i += header == 0 ? 8 : 4)
          each[world % each.size()].push_back(header == 0 ? numberAt<double>(bytes, at + i)
                                                          : double(numberAt<float>(bytes, at + i)));
    }
    for (const std::vector<double> &replica : each)
      EXPECT_EQ(replica, each.front());
    return each.front();
  }
  template <typename T> static T numberAt(const std::vector<char> &bytes, size_t at) {
    T number = 0;
    std::memcpy(&number, bytes.data() + at, sizeof number);
    return number;
  }
  std::vector<double> train(const plan::Plan &plan, int64_t swapEvery = 0) {
    const std::string into = std::to_string(runs++);
    LocalResult result;
    const Status status = run(plan, optionsOf(kSteps, into), result, {}, swapEvery);
    EXPECT_TRUE(status.ok()) << status.message;
    EXPECT_EQ(result.run.epochs.size() - 1, swapEvery == 0 ? 0u : size_t(kSteps / swapEvery));
    return status.ok() ? weights(plan, into) : std::vector<double>();
  }

  std::string library = PIPEC_BIN "/mlp.so";
  size_t header = 32; // of a layer in a state
  int runs = 0;
};

void expectNear(const std::vector<double> &found, const std::vector<double> &expected) {
  ASSERT_EQ(found.size(), expected.size());
  double furthest = 0;
  for (size_t i = 0; i < found.size(); ++i)
    furthest = std::max(furthest, std::abs(found[i] - expected[i]));
  EXPECT_LT(furthest, 1e-5);
}

struct Way {
  Sums sums;
  int32_t bundle;
  bool parts;
};
std::vector<Way> allWays() {
  std::vector<Way> ways;
  for (const Sums sums : kSums)
    for (const auto &[bundle, parts] : {std::pair(1, true), std::pair(8, false), std::pair(2, true)})
      ways.push_back({sums, bundle, parts});
  return ways;
}
Replicated in(const Way &way, Replicated p) {
  p.bundle = std::min(way.bundle, p.layers);
  p.sums = way.sums;
  p.parts = way.parts;
  return p;
}

TEST_F(ReplicatedTraining, GivesTheWeightsOfOneProcessWhateverTheBundlesAndTheCollectives) {
  const std::vector<double> one = train(planOf(trained(1, 1)));
  for (const auto &[ranks, degree] : kShapes) {
    std::vector<double> first;
    for (const Way &way : allWays()) {
      const std::vector<double> found = train(planOf(in(way, trained(ranks, degree))));
      if (first.empty())
        first = found;
      EXPECT_EQ(found, first) << ranks << " x " << degree << ", bundles of " << way.bundle;
    }
    expectNear(first, one);
  }
}

/// To the bit, where no sum rounds.
TEST_F(ReplicatedTraining, OfWholeNumbersIsExact) {
  library = PIPEC_WHOLE;
  header = 0;
  const auto planned = [&](int32_t ranks, int32_t degree) {
    Replicated p = trained(ranks, degree);
    p.layerBytes = 37 * 8;
    return p;
  };
  const std::vector<double> one = train(planOf(planned(1, 1)));
  EXPECT_NE(one, std::vector<double>(one.size(), 0));
  for (const auto &[ranks, degree] : kShapes)
    for (const Way &way : allWays())
      EXPECT_EQ(train(planOf(in(way, planned(ranks, degree)))), one) << ranks << " x " << degree;
  Replicated pieces = planned(2, 3);
  pieces.microbatches = 4;
  pieces.bundle = 2;
  pieces.piece = 100;
  Replicated alone = planned(1, 1);
  alone.microbatches = 12;
  EXPECT_EQ(train(planOf(pieces)), train(planOf(alone)));
}

TEST_F(ReplicatedTraining, ASwapEveryThirdStepChangesNothing) {
  for (const Sums sums : kSums) {
    const Replicated p = trained(2, 2);
    plan::Plan plan = planOf(in({sums, 1, true}, p));
    const std::vector<double> expected = train(plan);
    plan.variants.push_back(planOf(in({sums, 4, false}, p)).variants.front());
    EXPECT_EQ(train(plan, 3), expected);
  }
}

TEST_F(ReplicatedTraining, ByTheNormOfAllGradientsToo) {
  const auto clipped = [&](Replicated p) {
    p.norm = true;
    return planOf(p, R"(, "clip": 0.05)");
  };
  const std::vector<double> one = train(clipped(trained(1, 1)));
  double furthest = 0;
  size_t at = 0;
  for (const double weight : train(planOf(trained(1, 1))))
    furthest = std::max(furthest, std::abs(weight - one[at++]));
  EXPECT_GT(furthest, 1e-3) << "nothing is clipped";
  std::vector<double> first;
  for (const Way &way : allWays()) {
    const std::vector<double> found = train(clipped(in(way, trained(2, 2))));
    if (first.empty())
      first = found;
    EXPECT_EQ(found, first);
  }
  expectNear(first, one);
}

TEST_F(ReplicatedTraining, GoesOnFromACheckpointOnceAReplicaWasKilled) {
  const plan::Plan plan = planOf(in({Sums::Sharded, 2, true}, trained(2, 2)));
  const std::vector<double> expected = train(plan);
  LocalSetup setup;
  setup.plan = std::make_shared<plan::Plan>(plan);
  setup.options = optionsOf(kSteps, "killed");
  setup.options.every = 10;
  setup.restarts = 1;
  std::vector<pid_t> pids;
  setup.progressed = [&](int64_t step) {
    if (step >= 25 && !pids.empty())
      ::kill(std::exchange(pids, {})[1], SIGKILL);
  };
  LocalResult result;
  bool begun = false;
  const Status status = runLocal(
      setup, [&](const LocalResult &now) { pids = std::exchange(begun, true) ? std::vector<pid_t>() : now.pids; },
      result);
  ASSERT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(result.restarts, 1);
  EXPECT_EQ(weights(plan, "killed"), expected);
  Manifest manifest;
  const Status other = readManifest(setup.options.checkpoint, planOf(trained(2, 4)), manifest);
  EXPECT_EQ(other.code, Code::Input);
  EXPECT_NE(other.message.find("is of 2 replicas of each rank, the plan has 4"), std::string::npos) << other.message;
}

} // namespace
