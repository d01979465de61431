// Whole runs of small plans, as forked processes.
#include "runtime/launch/Local.h"
#include "runtime/plan/Provider.h"
#include "runtime/simulate/Steps.h"
#include "test/plan/MakePlan.h"
#include "test/runtime/Plans.h"

#include <algorithm>
#include <csignal>
#include <gtest/gtest.h>
#include <regex>
#include <spdlog/spdlog.h>
#include <unistd.h>

using namespace pipec;
using namespace pipec::runtime;
using test::makePlan;
using test::Pipeline;

// A rank's process ends by _exit, with threads that stand in objects which are never freed (Worker.h): no leak.
extern "C" const char *__tsan_default_options();
extern "C" const char *__tsan_default_options() { return "report_thread_leaks=0"; }

namespace {

RunOptions options(int64_t steps, Pace pace = Pace::Carry) {
  RunOptions result;
  result.steps = steps;
  result.pace = pace;
  result.deadline = result.rendezvous = 600'000'000'000'000; // 10 minutes
  return result;
}

simulate::Options optionsOf(int64_t steps) {
  simulate::Options options;
  options.steps = steps;
  return options;
}

Status run(const plan::Plan &plan, const RunOptions &options, LocalResult &result,
           const std::function<void(const LocalResult &)> &started = {}) {
  spdlog::set_level(spdlog::level::warn);
  LocalSetup setup;
  setup.plan = std::make_shared<plan::Plan>(plan);
  setup.options = options;
  return runLocal(setup, started, result);
}

// Deadlines to try one after the other: a machine may be so busy that a rank is late for the first.
constexpr plan::Time kSecond = 1'000'000'000'000;
constexpr std::initializer_list<plan::Time> kDeadlines = {kSecond, 10 * kSecond, 100 * kSecond};

/// A step is off by no more than an operation was late; how late they may be, system.timing asks.
void expectSimulated(const plan::Plan &plan, int64_t steps) {
  LocalResult result;
  Status status = run(plan, options(steps), result);
  ASSERT_TRUE(status.ok()) << status.message;
  std::vector<plan::Time> simulated, measured = measuredSteps(result.run.ranks, 0, steps);
  ASSERT_TRUE(simulate::stepTimes(plan.variants.front(), optionsOf(steps), simulated).ok());
  ASSERT_EQ(measured.size(), size_t(steps));
  plan::Time latest = 0;
  for (const RankReport &rank : result.run.ranks)
    latest = std::max(latest, rank.lateness.max());
  for (int64_t s = 0; s < steps; ++s)
    EXPECT_LE(std::abs(measured[size_t(s)] - simulated[size_t(s)]), latest + 1'000'000) << "step " << s;
}

TEST(LocalRun, OneRank) {
  Pipeline p;
  p.ranks = 1;
  expectSimulated(makePlan(p), 3);
}

TEST(LocalRun, CarryTakesTheSimulatedTime) { expectSimulated(makePlan(Pipeline{}), 4); }

TEST(LocalRun, FourRanks) {
  Pipeline p;
  p.ranks = 4;
  p.microbatches = 6;
  expectSimulated(makePlan(p), 3);
}

TEST(LocalRun, SharedCommunicatorQueue) {
  Pipeline p;
  p.ranks = 3;
  p.shared = true;
  expectSimulated(makePlan(p), 3);
}

/// Pairs take their own time, and each of the two is in the trace for all of it.
TEST(LocalRun, OverlappedPairs) {
  plan::test::Make make;
  make.ranks = 3;
  make.forward = 2'000'000'000;
  make.backwardInput = 3'000'000'000;
  make.backwardWeight = 2'000'000'000;
  make.overlapped = 5'500'000'000;
  make.optimizerCost = 500'000'000;
  make.transfer = 100'000'000;
  const plan::Plan plan = plan::test::makePlan(make);
  expectSimulated(plan, 3);
  RunOptions o = options(1);
  o.trace = true;
  LocalResult result;
  Status status = run(plan, o, result);
  ASSERT_TRUE(status.ok()) << status.message;
  for (size_t rank = 0; rank < result.run.ranks.size(); ++rank) {
    int pairs = 0;
    plan::Time before = -1; // where the event before begins
    for (const trace::Event &event : result.run.ranks[rank].events) {
      EXPECT_NE(event.kind, plan::Kind::Overlapped);
      if (event.queue != 0)
        continue;
      if (event.start == before) {
        EXPECT_EQ(event.kind, plan::Kind::Backward);
        ++pairs;
      }
      before = event.start;
    }
    EXPECT_EQ(pairs, make.microbatches - (make.ranks - int(rank))) << "rank " << rank;
  }
}

/// A stage library that runs the two of a pair in one call gets them so, each once; another one, one after the other.
TEST(LocalRun, PairsOfAStageLibrary) {
  plan::test::Make make;
  make.ranks = 1;
  make.microbatches = 4;
  make.forward = make.backwardInput = make.backwardWeight = 1'000'000;
  make.overlapped = 2'000'000;
  make.optimizerCost = 1'000'000;
  plan::Plan plan = plan::test::makePlan(make);
  const auto said = [&](const char *probe, const char *provider) {
    EXPECT_TRUE(plan::providerOf(provider, plan.provider).ok());
    RunOptions o = options(1, Pace::Real);
    o.stage = std::string(PIPEC_PROBES "/probe-") + probe + ".so";
    LocalResult result;
    return run(plan, o, result).message;
  };
  EXPECT_NE(said("pairs", R"({"at": "count"})").find("1 F, 1 BW, 3 pairs"), std::string::npos);
  EXPECT_NE(said("backward", R"({"at": "count"})").find("4 F, 4 BW, 0 pairs"), std::string::npos);
  EXPECT_NE(said("pairs", R"({"at": "pair"})").find("F stage 0 microbatch 3: F 3 with BW 2"), std::string::npos);
  EXPECT_EQ(said("pairs", "{}"), "");
}

/// 1F1B with the weights' gradients on a queue of lower priority: one device, one instruction at a time.
TEST(LocalRun, WeightsQueue) {
  plan::test::Make make;
  make.split = make.deferred = true;
  make.forward = 2'000'000'000;
  make.backwardInput = 3'000'000'000;
  make.backwardWeight = 1'500'000'000;
  make.optimizerCost = 500'000'000;
  make.transfer = 100'000'000;
  plan::Plan plan = plan::test::makePlan(make);
  RunOptions o = options(2);
  o.trace = true;
  LocalResult result;
  Status status = run(plan, o, result);
  ASSERT_TRUE(status.ok()) << status.message;
  for (size_t rank = 0; rank < result.run.ranks.size(); ++rank) {
    std::vector<std::pair<plan::Time, plan::Time>> busy;
    for (const trace::Event &event : result.run.ranks[rank].events)
      if (plan.variants.front().programs[rank].queues[event.queue].kind == plan::QueueKind::Device)
        busy.push_back({event.start, event.end});
    std::sort(busy.begin(), busy.end());
    for (size_t i = 1; i < busy.size(); ++i)
      EXPECT_LE(busy[i - 1].second, busy[i].first) << "rank " << rank;
  }
}

/// An all-reduce before the optimizers.
plan::test::Make withNorm(int32_t ranks) {
  plan::test::Make make;
  make.ranks = ranks;
  make.forward = make.backwardInput = make.backwardWeight = 1'000'000'000;
  make.optimizerCost = 500'000'000;
  make.normCost = 2'000'000'000;
  make.transfer = 100'000'000;
  make.norm = true;
  return make;
}

TEST(LocalRun, AllReduce) {
  for (int32_t ranks : {1, 2, 4})
    expectSimulated(plan::test::makePlan(withNorm(ranks)), 3);
}

TEST(LocalRun, TwoRanksSumTheirCopiesGradients) {
  plan::Plan plan = plan::test::makeCopies();
  for (plan::Program &program : plan.variants.front().programs) // 29 ms a microbatch is long for a test
    for (plan::Operation &operation : program.operations)
      operation.cost /= 10;
  plan::Certificate &certificate = plan.variants.front().certificate;
  certificate.makespan = certificate.span = certificate.span / 10;
  certificate.lowerBound = certificate.spanLowerBound = plan::LeastTime::proven(certificate.span);
  expectSimulated(plan, 3);
}

TEST(LocalRun, AllReduceBehindDeferredWeights) {
  plan::test::Make make = withNorm(3);
  make.split = make.deferred = true;
  LocalResult result;
  Status status = run(plan::test::makePlan(make), options(3, Pace::Naive), result);
  EXPECT_TRUE(status.ok()) << status.message;
}

// Rank 0 alone computes on: it says what keeps it, or its neighbour in the ring says who is missing.
TEST(LocalRun, ARankThatDoesNotComeToTheAllReduceIsNamed) {
  plan::Plan plan = plan::test::makePlan(withNorm(4));
  plan::Program &first = plan.variants.front().programs[0];
  plan::Instruction *last = nullptr; // backward
  for (plan::Instruction &i : first.instructions)
    if (first.operations[i.operation].kind == plan::Kind::Backward)
      last = &i;
  plan::Operation slow = first.operations[last->operation];
  slow.cost = 9'000 * kSecond;
  last->operation = uint32_t(first.operations.size());
  first.operations.push_back(slow);
  const std::regex named(
      "rank 1: all_reduce norm: rank 0 did not come to it within|rank 0: all_reduce norm waits for \"rank 0: BW");
  RunOptions o = options(1);
  Status status;
  for (const plan::Time deadline : kDeadlines) {
    o.deadline = deadline;
    LocalResult result;
    status = run(plan, o, result);
    EXPECT_EQ(status.code, Code::Run);
    if (std::regex_search(status.message, named))
      break;
  }
  EXPECT_TRUE(std::regex_search(status.message, named)) << status.message;
}

TEST(LocalRun, LongLatencyAndOneSlot) {
  Pipeline p;
  p.ranks = 3;
  p.latency = 3'000'000'000;
  p.ring = 1;
  expectSimulated(makePlan(p), 3);
}

TEST(LocalRun, NaiveIsNoFasterThanSimulated) {
  Pipeline p;
  p.ranks = 3;
  plan::Plan plan = makePlan(p);
  LocalResult result;
  Status status = run(plan, options(3, Pace::Naive), result);
  ASSERT_TRUE(status.ok()) << status.message;
  std::vector<plan::Time> simulated, measured = measuredSteps(result.run.ranks, 0, 3);
  ASSERT_TRUE(simulate::stepTimes(plan.variants.front(), optionsOf(3), simulated).ok());
  EXPECT_GE(measured.front(), simulated.front() * 99 / 100);
}

TEST(LocalRun, ZeroCostsAndZeroBytes) {
  Pipeline p;
  p.ranks = 4;
  p.microbatches = 50;
  p.forward = p.backward = p.optimizer = p.wire = p.latency = 0;
  p.bytes = 0;
  LocalResult result;
  Status status = run(makePlan(p), options(20), result);
  EXPECT_TRUE(status.ok()) << status.message;
}

TEST(LocalRun, TraceHasEveryInstructionOnce) {
  Pipeline p;
  p.ranks = 3;
  plan::Plan plan = makePlan(p);
  RunOptions o = options(2);
  o.trace = true;
  LocalResult result;
  ASSERT_TRUE(run(plan, o, result).ok());
  for (size_t rank = 0; rank < 3; ++rank) {
    int64_t executed = 0;
    for (int64_t count : executedByQueue(plan.variants.front().programs[rank]))
      executed += count;
    EXPECT_EQ(int64_t(result.run.ranks[rank].events.size()), 2 * executed);
    for (const trace::Event &event : result.run.ranks[rank].events) {
      EXPECT_EQ(event.rank, int32_t(rank));
      EXPECT_LE(event.start, event.end);
    }
  }
}

/// One rank was killed. The others have ended by themselves, or, where a busy machine left them no time to, by force.
void expectEnds(const LocalResult &result, size_t killed) {
  EXPECT_EQ(result.exits[killed], -SIGKILL);
  for (const int exit : result.exits)
    EXPECT_TRUE(exit == int(Code::Run) || exit == -SIGKILL) << exit;
}

TEST(LocalRun, KilledRankEndsTheOthers) {
  Pipeline p;
  p.ranks = 4;
  p.microbatches = 1000;
  LocalResult result;
  auto kill = [](const LocalResult &r) { ::kill(r.pids[2], SIGKILL); };
  Status status = run(makePlan(p), options(100), result, kill);
  EXPECT_EQ(status.code, Code::Run);
  expectEnds(result, 2);
  EXPECT_NE(status.message.find("rank 2 (pid"), std::string::npos) << status.message;
  EXPECT_NE(status.message.find("was killed by signal 9"), std::string::npos) << status.message;
  for (pid_t pid : result.pids)
    EXPECT_EQ(::kill(pid, 0), -1);
}

TEST(LocalRun, StuckRankEndsTheOthersAtTheDeadline) {
  Pipeline p;
  p.ranks = 3;
  p.microbatches = 1000;
  RunOptions o = options(100);
  auto stop = [](const LocalResult &r) { ::kill(r.pids[1], SIGSTOP); };
  Status status;
  for (const plan::Time deadline : kDeadlines) {
    o.deadline = deadline;
    LocalResult result;
    status = run(makePlan(p), o, result, stop);
    EXPECT_EQ(status.code, Code::Run);
    expectEnds(result, 1);
    EXPECT_NE(status.message.find("rank 1 (pid"), std::string::npos) << status.message;
    if (status.message.find("rank 1 did not come to it within") != std::string::npos)
      break;
  }
  EXPECT_NE(status.message.find("rank 1 did not come to it within"), std::string::npos) << status.message;
}

// All ranks agree on the last step, and the run is a good one.
TEST(LocalRun, SignalToTheLauncherEndsTheRunInOrder) {
  Pipeline p;
  LocalResult result;
  auto interrupt = [](const LocalResult &) { ::raise(SIGTERM); };
  plan::Plan plan = makePlan(p);
  plan.variants.front().certificate.span = 30'000'000'000; // steps are permitted as far ahead as they take time
  Status status = run(plan, options(100'000), result, interrupt);
  EXPECT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(result.exits, (std::vector<int>{0, 0}));
  EXPECT_LT(result.run.end, 100'000);
  for (const RankReport &rank : result.run.ranks)
    EXPECT_EQ(int64_t(rank.steps.size()), result.run.end);
}

TEST(LocalRun, SecondSignalToTheLauncherEndsAllAtOnce) {
  Pipeline p;
  p.microbatches = 100'000;
  LocalResult result;
  auto interrupt = [](const LocalResult &) {
    ::kill(getpid(), SIGTERM);
    ::kill(getpid(), SIGINT);
  };
  Status status = run(makePlan(p), options(100), result, interrupt);
  EXPECT_EQ(status.code, Code::Run);
  EXPECT_TRUE(status.message.starts_with("ended by signal")) << status.message;
  for (const int exit : result.exits) // one may have seen the other go
    EXPECT_TRUE(exit == -SIGKILL || exit == int(Code::Run)) << exit;
  EXPECT_GT(std::count(result.exits.begin(), result.exits.end(), -SIGKILL), 0);
}

// Ranks that disagree about the order of transfers: the tag shows it before any wrong data are used.
TEST(LocalRun, MismatchedTransferNamesBoth) {
  plan::Plan plan = makePlan(Pipeline{});
  for (plan::Instruction &i : plan.variants.front().programs[1].instructions)
    i.microbatch += 1;
  LocalResult result;
  Status status = run(plan, options(1), result);
  EXPECT_EQ(status.code, Code::Run);
  EXPECT_NE(status.message.find("F of stage 0 microbatch 0 in step 0 epoch 0"), std::string::npos) << status.message;
  EXPECT_NE(status.message.find("F of stage 0 microbatch 1 in step 0 epoch 0"), std::string::npos) << status.message;
}

// A wait that is missing: the slot is filled again before its send has left, or read before it is filled.
TEST(LocalRun, MissingWaitIsNoticedInTheData) {
  Pipeline p;
  p.ring = 1;
  p.wire = 5'000'000'000; // slower than a forward
  plan::Plan plan = makePlan(p);
  plan::Program &receiver = plan.variants.front().programs[1];
  for (plan::Instruction &i : receiver.instructions)
    if (receiver.operations[i.operation].kind == plan::Kind::Forward)
      i.waits = 0;
  LocalResult result;
  Status status = run(plan, options(1), result);
  EXPECT_EQ(status.code, Code::Run);
  // Which one is first seen to lack its data is a matter of chance.
  const std::regex lacking("rank 1: F stage 1 microbatch \\d: its input is not what stage 0 sent");
  EXPECT_TRUE(std::regex_search(status.message, lacking)) << status.message;
}

} // namespace
