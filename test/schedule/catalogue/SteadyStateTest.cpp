// kFkB and per-link slack against the vectors in test/data/kfkb_vectors.json: orders, and the steady state, in which a
// transfer holds its link and the next one of that direction waits for it. The simulator's links do so. The evaluator's
// are ideal and never queue: it finds the same where bursts of k transfers do not pile up on a link, and less where
// they do.
#include "compiler/schedule/catalogue/Entries.h"
#include "compiler/schedule/evaluate/Evaluate.h"
#include "runtime/simulate/Simulate.h"
#include "test/Rounds.h"
#include "test/schedule/Support.h"

#include <cmath>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>

namespace pipec::schedule::test {
namespace {

using nlohmann::json;

const json &vectors() {
  static const json data = json::parse(std::ifstream(PIPEC_SOURCE_DIR "/test/data/kfkb_vectors.json"));
  return data;
}

constexpr double kUnit = 1e9; // ps: the vectors' unit as a millisecond
constexpr int32_t kTo = pipec::test::kSanitized ? 40'000 : 160'000, kFrom = kTo / 2;

Time time(const json &value) { return std::llround(value.get<double>() * kUnit); }

struct Vector {
  Vector(const json &data, const char *schedule)
      : p(data["p"]), f(time(data["f"])), b(time(data["b"])), period(data[schedule]["T_sim"].get<double>() * kUnit),
        peak(data[schedule]["peak_mb_stage0"]) {
    for (const json &each : data["c"])
      c.push_back(time(each));
    if (data[schedule].contains("k")) {
      k = data[schedule]["k"];
      for (int32_t r = 0; r < p; ++r)
        warmUp.push_back(k * (p - r));
      given = {{"k", k}};
    } else {
      const std::vector<int64_t> slack = data[schedule]["delta"];
      warmUp.assign(size_t(p), 1);
      for (size_t r = slack.size(); r-- > 0;)
        warmUp[r] = warmUp[r + 1] + int32_t(slack[r]);
      given = {{"per_link", Given(slack)}};
    }
    name = k > 0 ? "kfkb" : "slack";
    k = std::max(k, 1);
  }
  int32_t p, k = 0;            // k backwards and k forwards in turn
  std::vector<int32_t> warmUp; // of each rank
  Time f, b;
  std::vector<Time> c; // of link l, between ranks l and l + 1
  double period;
  Bytes peak;
  const char *name;
  Parameters given;
};

/// Link times as bandwidth: c ps for one byte a picosecond.
Problem problemOf(const Vector &vector, int32_t microbatches) {
  Problem problem = uniform(vector.p, microbatches, vector.f, vector.b, 0);
  problem.link = {0, 1'000'000'000'000};
  for (size_t l = 0; l < vector.c.size(); ++l)
    problem.stages[l].boundary = vector.c[l];
  return problem;
}

Time longest(const std::vector<Time> &times) { return *std::max_element(times.begin(), times.end()); }

Words wordsOf(const Vector &vector, int32_t microbatches) {
  const Problem problem = problemOf(vector, microbatches);
  EXPECT_EQ(check(*find(vector.name), problem, vector.given), "");
  return wordsOf(*find(vector.name), problem, vector.given);
}

/// One rank's order as a rolled program whose buffers never run out. Its operations are those of the queues they are
/// on, but for F and B, which share the compute queue.
class Builder {
public:
  Builder(const Vector &vector, int32_t rank, int32_t microbatches) : vector(vector), rank(rank), m(microbatches) {
    program.rank = rank;
    program.stages = {rank};
    program.queues.assign(kQueues, {plan::QueueKind::Communicator, plan::Priority::Compute});
    program.queues[kCompute] = {plan::QueueKind::Device, plan::Priority::Compute};
    const Time before = rank > 0 ? vector.c[size_t(rank - 1)] : 0, after = isLast() ? 0 : vector.c[size_t(rank)];
    const auto add = [&](plan::Kind kind, plan::Payload of, int32_t peer, Time cost) {
      plan::Operation operation;
      operation.kind = kind;
      operation.of = of;
      operation.stage = rank;
      operation.peer = peer;
      operation.cost = cost;
      program.operations.push_back(operation);
    };
    add(plan::Kind::Forward, plan::Payload::None, -1, vector.f);
    add(plan::Kind::Recv, plan::Payload::Forward, rank - 1, before);
    add(plan::Kind::Send, plan::Payload::Forward, rank + 1, after);
    add(plan::Kind::Recv, plan::Payload::Backward, rank + 1, after);
    add(plan::Kind::Send, plan::Payload::Backward, rank - 1, before);
    add(plan::Kind::Backward, plan::Payload::None, -1, vector.b);
  }

  plan::Program build() {
    const int32_t k = vector.k;
    segment(std::min(m, vector.warmUp[size_t(rank)]), 0, 1);
    segment((m - forwards) / k, k, k);
    while (backwards < m)
      segment(1, std::min(k, m - backwards), std::min(k, m - forwards));
    return std::move(program);
  }

private:
  enum Queue : uint32_t { kCompute, kForwardIn, kForwardOut, kBackwardIn, kBackwardOut, kQueues };
  static constexpr uint32_t kForward = 0, kBackward = kQueues;
  const Vector &vector;
  const int32_t rank, m;
  int32_t forwards = 0, backwards = 0; // up to the segment to come
  plan::Program program;

  bool isLast() const { return rank + 1 == vector.p; }

  /// `trips` times: so many backwards, then so many forwards.
  void segment(int32_t trips, int32_t backwardsEach, int32_t forwardsEach) {
    if (trips == 0)
      return;
    const auto first = uint32_t(program.instructions.size());
    const int32_t computeEach = backwardsEach + forwardsEach;
    int32_t computed = backwards + forwards;
    for (int32_t i = backwards; i < backwards + backwardsEach; ++i)
      pass(kBackward, i, backwardsEach, ++computed, computeEach, isLast() ? kCompute : kBackwardIn,
           rank > 0 ? kBackwardOut : kCompute);
    for (int32_t i = forwards; i < forwards + forwardsEach; ++i)
      pass(kForward, i, forwardsEach, ++computed, computeEach, rank > 0 ? kForwardIn : kCompute,
           isLast() ? kCompute : kForwardOut);
    program.step.push_back({first, uint32_t(program.instructions.size()) - first, uint32_t(trips)});
    backwards += trips * backwardsEach;
    forwards += trips * forwardsEach;
  }

  /// A receive, the pass that waits for it, the send that waits for the pass; kCompute: no such transfer.
  void pass(uint32_t operation, int32_t microbatch, int32_t stride, int32_t place, int32_t placeStride, Queue in,
            Queue out) {
    const auto add = [&](uint32_t what, Queue queue) {
      program.instructions.push_back({what, queue, uint32_t(program.waits.size()), 0, microbatch, stride});
    };
    const auto wait = [&](Queue queue, int64_t base, int64_t each) {
      program.waits.push_back({queue, false, base, each});
      ++program.instructions.back().waits;
    };
    if (in != kCompute)
      add(in, in);
    add(operation, kCompute);
    if (in != kCompute)
      wait(in, microbatch + 1, stride);
    if (out != kCompute) {
      add(out, out);
      wait(kCompute, place, placeStride);
    }
  }
};

plan::Variant variantOf(const Vector &vector, int32_t microbatches) {
  plan::Variant variant;
  variant.stages = vector.p;
  variant.microbatches = microbatches;
  for (int32_t r = 0; r < vector.p; ++r)
    variant.programs.push_back(Builder(vector, r, microbatches).build());
  return variant;
}

class SteadyState : public testing::TestWithParam<std::tuple<size_t, const char *>> {
protected:
  const Vector vector{vectors()["steady_state_test_vectors"][std::get<0>(GetParam())], std::get<1>(GetParam())};
};

TEST_P(SteadyState, ProgramIsTheSchedules) {
  const int32_t m = 40 + int32_t(std::get<0>(GetParam())) % 4;
  const Words words = wordsOf(vector, m);
  const plan::Variant variant = variantOf(vector, m);
  for (int32_t r = 0; r < vector.p; ++r) {
    Word word;
    for (plan::Cursor cursor(variant.programs[size_t(r)]); !cursor.done(); cursor.next())
      if (plan::isCompute(cursor.at().operation->kind))
        word.push_back({r, cursor.at().operation->kind == plan::Kind::Forward ? Letter::F : Letter::BW});
    EXPECT_EQ(word, words[size_t(r)]);
  }
  EXPECT_EQ(evaluate(problemOf(vector, m), words).peak[0], vector.peak);
}

TEST_P(SteadyState, SimulatedPeriod) {
  const plan::Variant variant = variantOf(vector, kTo);
  Time from = 0, to = 0;
  simulate::Options options;
  options.observe = [&](const simulate::Event &event) {
    if (event.rank == 0 && event.operation->kind == plan::Kind::Backward)
      (event.microbatch < kFrom ? from : to) = event.end;
  };
  simulate::Result result;
  const Status status = simulate::simulate(variant, options, result);
  ASSERT_TRUE(status.ok()) << status.message;
  EXPECT_NEAR(double(to - from) / (kTo - kFrom) / vector.period, 1, 0.01);
}

TEST_P(SteadyState, EvaluatedPeriodIsThatOfIdealLinks) {
  const auto end = [&](int32_t m) {
    return evaluate(problemOf(vector, m), wordsOf(vector, m), {.withSpan = false}).makespan;
  };
  const double ratio = double(end(kTo) - end(kFrom)) / (kTo - kFrom) / vector.period;
  EXPECT_LT(ratio, 1.01);
  const bool isSlack = vector.name == std::string("slack");
  if (longest(vector.c) <= (isSlack ? vector.f + vector.b : vector.f) || (vector.k == 1 && !isSlack)) {
    EXPECT_NEAR(ratio, 1, 0.01) << "no transfer meets the one before";
  }
}

INSTANTIATE_TEST_SUITE_P(Vectors, SteadyState,
                         testing::Combine(testing::Range<size_t>(0, vectors()["steady_state_test_vectors"].size(),
                                                                 pipec::test::stride(1, 1)),
                                          testing::Values("kfkb", "slack")));

/// "F0 F1 B0 …" of a word of one stage, microbatches counted.
std::string spell(const Word &word) {
  std::ostringstream text;
  int32_t forwards = 0, backwards = 0;
  for (const Op &op : word)
    text << (text.tellp() > 0 ? " " : "") << (op.letter == Letter::F ? "F" : "B")
         << (op.letter == Letter::F ? forwards++ : backwards++);
  return text.str();
}

TEST(KFkBVectors, Orders) {
  ASSERT_EQ(vectors()["order_test_vectors"].size(), 5u);
  for (const auto &[name, ranks] : vectors()["order_test_vectors"].items()) { // "p4_m8_k2"
    int p = 0, m = 0, k = 0;
    ASSERT_EQ(std::sscanf(name.c_str(), "p%d_m%d_k%d", &p, &m, &k), 3) << name;
    const Words made = wordsOf(*find("kfkb"), uniform(p, m, 1, 1, 1), {{"k", k}});
    ASSERT_EQ(ranks.size(), made.size()) << name;
    for (size_t r = 0; r < made.size(); ++r)
      EXPECT_EQ(spell(made[r]), ranks[r].get<std::string>()) << name << " rank " << r;
  }
}

/// Slack of 1 a link is 1F1B, and what it takes by itself hides the transfers that can be hidden: on ideal links its
/// steady period is the least there is, and no link could do with less.
TEST(Slack, DefaultHidesTransfers) {
  int looked = 0, longer = 0;
  for (const json &each : vectors()["steady_state_test_vectors"]) {
    const Vector vector(each, "slack");
    if (longest(vector.c) > vector.f + vector.b)
      continue; // ideal links take no such time
    ++looked;
    const Problem problem = problemOf(vector, 16'000);
    Problem twice = problem;
    twice.microbatches *= 2;
    const auto end = [](const Problem &given, const Parameters &parameters) {
      return evaluate(given, wordsOf(*find("slack"), given, parameters), {.withSpan = false}).makespan;
    };
    const Time period = leastSlackPeriod(problem);
    EXPECT_EQ(end(twice, {}) - end(problem, {}), period * problem.microbatches);
    std::vector<int64_t> slack = slackFor(problem, period);
    for (int64_t &link : slack)
      if (link > 1) {
        ++longer;
        --link;
        const Parameters less = {{"per_link", Given(slack)}};
        EXPECT_GT(end(twice, less) - end(problem, less), period * problem.microbatches);
        ++link;
      }
  }
  EXPECT_GT(looked, 10);
  EXPECT_GT(longer, 10);
  const Problem problem = uniform(5, 9, 3, 4, 2);
  EXPECT_EQ(wordsOf(*find("slack"), problem, {}), test::wordsOf("1f1b", problem));
}

TEST(Slack, TakesAListForEachLink) {
  const Problem problem = uniform(4, 8, 1, 1, 1);
  const Entry &slack = *find("slack");
  EXPECT_EQ(
      check(slack, problem, {{"per_link", Given(std::vector<int64_t>{1, 2})}}),
      "schedule 'slack' takes a number for each link between neighbouring ranks as per_link, 3 on 4 ranks; found 2");
  EXPECT_EQ(check(slack, problem, {{"per_link", Given(std::vector<int64_t>{1, 2, 9})}}),
            "schedule 'slack' takes per_link from 1 to the number of microbatches, 8; found 9");
  EXPECT_EQ(check(slack, problem, {{"per_link", 2}}),
            "schedule 'slack' takes per_link as a list of numbers, found one number");
  EXPECT_EQ(check(*find("kfkb"), problem, {{"k", Given(std::vector<int64_t>{1, 2})}}),
            "schedule 'kfkb' takes k as one number, found a list");
}

TEST(KFkBVectors, SteadyStates) { EXPECT_EQ(vectors()["steady_state_test_vectors"].size(), 60u); }

} // namespace
} // namespace pipec::schedule::test
