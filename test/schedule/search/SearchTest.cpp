// The search: every word it finds fits and is legal, and on proven optima it is nearly always optimal.
#include "compiler/schedule/search/Search.h"
#include "compiler/schedule/construct/ListSchedule.h"
#include "compiler/schedule/evaluate/Evaluate.h"
#include "compiler/schedule/improve/Grow.h"
#include "compiler/schedule/improve/LocalSearch.h"
#include "compiler/schedule/search/Ways.h"
#include "test/Rounds.h"
#include "test/bench/Grid.h"
#include "test/schedule/Optima.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

namespace pipec::schedule::test {
namespace {

void expectRight(const Problem &problem, const Solution &solution, Objective objective) {
  ASSERT_EQ(verify(problem, solution.words), "");
  const Evaluation evaluation = evaluate(problem, solution.words);
  ASSERT_TRUE(evaluation.complete);
  EXPECT_EQ(solution.time, objective == Objective::Span ? evaluation.span : evaluation.makespan);
  EXPECT_LE(solution.bound, solution.time);
  const Capacities capacities = capacitiesOf(problem, 1);
  for (size_t r = 0; r < capacities.size(); ++r)
    EXPECT_LE(evaluation.peak[r], capacities[r]);
}

const size_t kStride = pipec::test::stride(1, 1);

/// Asked to stop before it began, it has nothing: not even what needs no search, one microbatch at a time.
TEST(Search, StopsBeforeAnythingIsFound) {
  std::stop_source stop;
  Problem problem = grid::problemOf(grid::all().front());
  ASSERT_TRUE(solve(problem, {.stop = stop.get_token()}));
  stop.request_stop();
  for (const bool mixed : {false, true})
    for (const Bytes context : {0, 1}) {
      Problem each = problem;
      each.mixed = mixed;
      each.stages.front().backwardContext = context;
      EXPECT_FALSE(solve(each, {.stop = stop.get_token()}));
    }
  Words words = oneAtATime(problem);
  const Words before = words;
  EXPECT_LE(anneal(problem, capacitiesOf(problem, 1), words, {.evaluations = 1'000'000, .stop = stop.get_token()}), 1);
  EXPECT_EQ(words, before);
}

/// Where whole backwards take less than their parts, an order of both is never longer than one of either.
TEST(Search, MixedIsNeverLongerThanSplitOrFused) {
  const std::vector<grid::Row> rows = grid::all();
  int shorter = 0;
  for (size_t i = 0; i < rows.size(); i += 97 * kStride) {
    if (rows[i].p > 4 || rows[i].m > 16)
      continue;
    const Objective objective = rows[i].span ? Objective::Span : Objective::Makespan;
    Problem split = grid::problemOf(rows[i]);
    for (Stage &stage : split.stages)
      stage.backward = (stage.backwardInput + stage.backwardWeight) * 9 / 10;
    Problem fused = split, mixed = split;
    fused.backward = BackwardMode::Fused;
    mixed.mixed = true;
    const std::optional<Solution> both = solve(mixed, {objective});
    ASSERT_TRUE(both) << rows[i].csv();
    expectRight(mixed, *both, objective);
    bool isShorter = true;
    for (const Problem *each : {&split, &fused})
      if (const std::optional<Solution> other = solve(*each, {objective})) {
        EXPECT_LE(both->time, other->time) << rows[i].csv();
        isShorter &= both->time < other->time;
      }
    shorter += isShorter;
  }
  EXPECT_GT(shorter, 0);
}

/// What B makes for W counts against the limit; the search has an order wherever one microbatch at a time fits.
TEST(Search, BackwardContextsFit) {
  std::mt19937_64 random(9);
  int limited = 0;
  for (int n = 0; n != pipec::test::rounds(300); ++n) {
    Problem problem = randomProblem(random, 3, 4, 6);
    problem.backward = BackwardMode::Split;
    for (Stage &stage : problem.stages) {
      stage.backward = stage.backwardInput + stage.backwardWeight;
      stage.backwardContext = pick(random, 0, 12);
      stage.overlapped.reset();
    }
    problem.memoryLimit = std::max<Bytes>(1, leastLimit(problem) - 1);
    if (problem.memoryLimit < leastLimit(problem)) {
      EXPECT_FALSE(solve(problem, {.effort = 20}));
    }
    problem.memoryLimit = leastLimit(problem) + pick(random, 0, 3) * pick(random, 0, 20);
    if (problem.memoryLimit == 0)
      continue;
    const std::optional<Solution> solution = solve(problem, {.effort = 20});
    ASSERT_TRUE(solution) << n;
    expectRight(problem, *solution, Objective::Span);
    ++limited;
    Problem plain = problem; // without, there is no less room
    for (Stage &stage : plain.stages)
      stage.backwardContext = 0;
    EXPECT_LE(solve(plain, {.effort = 20})->bound, solution->time);
  }
  EXPECT_GE(limited, pipec::test::seen(250));
}

TEST(Search, ReachesProvenOptima) {
  size_t optimal = 0;
  const std::vector<Optimum> optima = readOptima();
  ASSERT_EQ(optima.size(), 230u);
  for (size_t i = 0; i < optima.size(); i += kStride) {
    const Optimum &each = optima[i];
    const Objective objective = each.span ? Objective::Span : Objective::Makespan;
    const std::optional<Solution> solution = solve(each.problem, {objective});
    ASSERT_TRUE(solution) << each.row;
    expectRight(each.problem, *solution, objective);
    EXPECT_GE(solution->time, each.optimum) << each.row;
    optimal += solution->time == each.optimum;
  }
  const size_t tried = (optima.size() + kStride - 1) / kStride;
  EXPECT_EQ(optimal, tried);
}

/// Of any problem there are words exactly where the limit is not below the least.
TEST(Search, WordsFitAnyProblem) {
  Random random(11);
  int refused = 0;
  for (int n = 0; n < pipec::test::rounds(300); ++n) {
    Problem problem = randomProblem(random, 4, 8, 9);
    if (n % 3 != 0) { // a limit between one microbatch and all
      const Evaluation evaluation = evaluate(problem, randomWords(random, problem));
      std::vector<Bytes> limits;
      for (size_t r = 0; r < size_t(problem.ranks); ++r)
        limits.push_back(std::max<Bytes>(1, evaluation.peak[r] + problem.staticBytes[r] + problem.workspace[r]));
      if (n % 3 == 1) // the largest for all
        limits.assign(limits.size(), *std::max_element(limits.begin(), limits.end()));
      problem.limitRanks(limits);
    }
    const Bytes least = leastLimit(problem);
    if (n % 5 == 0 && least > 1)
      problem.memoryLimit = least - pick(random, 0, 1);
    const Objective objective = n % 2 ? Objective::Span : Objective::Makespan;
    const std::optional<Solution> solution = solve(problem, {objective, 2});
    ASSERT_EQ(solution.has_value(), problem.memoryLimit == 0 || problem.memoryLimit >= least) << n;
    if (!solution) {
      ++refused;
      continue;
    }
    expectRight(problem, *solution, objective);
    const Evaluation evaluation = evaluate(problem, solution->words);
    for (int32_t r = 0; problem.memoryLimit != 0 && r < problem.ranks; ++r)
      EXPECT_LE(evaluation.peak[size_t(r)] + problem.staticBytes[size_t(r)] + problem.workspace[size_t(r)],
                problem.limitOf(r));
  }
  EXPECT_GE(refused, pipec::test::seen(20));
}

TEST(Search, SaysWhatFitsNothing) {
  Problem problem = uniform(4, 8, 1, 1, 1, 0, BackwardMode::Split);
  for (Stage &stage : problem.stages)
    stage.activation = 8;
  problem.memoryLimit = 7;
  EXPECT_FALSE(solve(problem));
  problem.memoryLimit = 8;
  EXPECT_TRUE(solve(problem));
}

TEST(Search, IsTheSameEveryTime) {
  Problem problem = uniform(5, 11, 10, 11, 8, 1, BackwardMode::Split);
  for (Stage &stage : problem.stages)
    stage.context = 1;
  problem.memoryLimit = 7;
  const std::optional<Solution> one = solve(problem), two = solve(problem);
  ASSERT_TRUE(one && two);
  EXPECT_EQ(one->words, two->words);
  EXPECT_EQ(one->letters, two->letters);
}

/// What the published generators reach at F = B = W, free links and m = 4p, with the activations that they hold (in
/// microbatches; half of each goes with B, half with W): at that memory the search is never worse.
TEST(Search, NoGeneratorIsBetterAtItsMemory) {
  struct Peer {
    const char *name;
    int32_t p;
    const char *placement;
    BackwardMode backward;
    double makespan, span, held; // 0: not known
  };
  using enum BackwardMode;
  for (const Peer &peer : {Peer{"1f1b of DeepSpeed, JaxPP, Primus", 8, "one", Fused, 117, 117, 8},
                           {"eager 1f1b of JaxPP", 8, "one", Fused, 117, 0, 15},
                           {"zb-h1 of JaxPP, Primus", 8, "one", Split, 103, 103, 8},
                           {"zb heuristic of Primus", 8, "one", Split, 103, 96, 27},
                           {"interleaved of JaxPP, nnScaler, Primus", 8, "loop", Fused, 106.5, 106.5, 11.5},
                           {"dualpipe-v of JaxPP", 8, "v", Split, 103.5, 103, 8.5},
                           {"zb-v of ColossalAI, Primus", 8, "v", Split, 99.5, 96, 8},
                           {"v-half of Primus", 8, "v", Split, 104.5, 104.5, 5},
                           {"v-min of Primus", 8, "v", Split, 109, 109, 4},
                           {"1f1b", 4, "one", Fused, 57, 0, 4},
                           {"interleaved", 4, "loop", Fused, 52.5, 0, 5.5},
                           {"gis", 4, "loop", Split, 51, 0, 4},
                           {"gis-h", 4, "loop", Split, 52, 0, 3},
                           {"zb-h1", 4, "one", Split, 51, 0, 4},
                           {"zb-v", 4, "v", Split, 49.5, 48, 4},
                           {"v-half", 4, "v", Split, 50.5, 0, 3},
                           {"v-min", 4, "v", Split, 53.5, 0, 2},
                           {"interleaved", 16, "loop", Fused, 214.5, 0, 23.5},
                           {"gis", 16, "loop", Split, 207, 0, 16},
                           {"gis-h", 16, "loop", Split, 211, 0, 12},
                           {"zb-h1", 16, "one", Split, 207, 0, 16},
                           {"zb-v", 16, "v", Split, 199.5, 192, 16},
                           {"v-half", 16, "v", Split, 212.5, 0, 9},
                           {"v-min", 16, "v", Split, 221.5, 0, 6}}) {
    const int32_t v = peer.placement[0] == 'o' ? 1 : 2;
    Problem problem = uniform(v * peer.p, 4 * peer.p, 1000 / v, 1000 / v, 1000 / v, 0, peer.backward);
    problem.ranks = peer.p;
    problem.rankOf = placed(peer.p, v * peer.p, peer.placement[0] == 'v');
    for (Stage &stage : problem.stages)
      stage.context = 1;
    problem.memoryLimit = static_cast<Bytes>(peer.held * 2 * v);
    for (const Objective objective : {Objective::Makespan, Objective::Span}) {
      const double time = objective == Objective::Makespan ? peer.makespan : peer.span;
      if (time == 0)
        continue;
      const std::optional<Solution> solution = solve(problem, {objective});
      ASSERT_TRUE(solution) << peer.name << " p=" << peer.p;
      EXPECT_LE(solution->time, 1000 * time) << peer.name << " p=" << peer.p;
    }
  }
}

/// A long step is a few candidates long at the least work, which would do with a published one, a tenth longer.
TEST(Search, TriesEnoughWhereAStepIsLong) {
  Problem problem = uniform(64, 256, 18522, 18086, 9336, 601, BackwardMode::Split);
  for (Stage &stage : problem.stages)
    stage.context = 1;
  problem.memoryLimit = 2 * 128;
  const std::optional<Solution> solution = solve(problem);
  ASSERT_TRUE(solution);
  EXPECT_LE(solution->time * 100, solution->bound * 102);
}

/// What few microbatches do again and again is improved before all others do it: with all, the search is no worse, but
/// for a thousandth, than what it finds with a fourth or half of them and all others repeat.
TEST(Search, ImprovesWhatGoesOn) {
  const Problem problem = grid::problemOf({10, 80, 5, 12000, 13000, 9000, 2000, "v", false});
  const std::optional<Solution> solution = solve(problem, {Objective::Makespan});
  ASSERT_TRUE(solution);
  for (const int32_t microbatches : {20, 40}) {
    Problem few = problem;
    few.microbatches = microbatches;
    const std::optional<Solution> ofFew = solve(few, {Objective::Makespan});
    ASSERT_TRUE(ofFew);
    const Period period = periodOf(few, ofFew->words, Objective::Makespan);
    ASSERT_GT(period.microbatches, 0);
    const Words repeated = grown(problem, few, ofFew->words, period);
    const Time likewise = timeOf(problem, repeated, Objective::Makespan);
    EXPECT_LE(solution->time, likewise + likewise / 1000) << microbatches;
  }
}

TEST(Search, LeavesOutTheWaysThatItIsTold) {
  const Problem problem =
      grid::problemOf({8, pipec::test::kSanitized ? 24 : 64, 4, 10000, 11000, 8000, 1000, "loop", false});
  const std::optional<Solution> solution = solve(problem, {Objective::Makespan});
  ASSERT_TRUE(solution);
  const std::vector<std::string> ways = allWays();
  EXPECT_EQ(std::set<std::string>(ways.begin(), ways.end()).size(), ways.size());
  EXPECT_FALSE(solution->ways.empty());
  for (const std::string &way : solution->ways) {
    EXPECT_EQ(std::count(ways.begin(), ways.end(), way), 1) << way;
    const std::optional<Solution> without = solve(problem, {.objective = Objective::Makespan, .without = {way}});
    ASSERT_TRUE(without) << way;
    EXPECT_EQ(verify(problem, without->words), "") << way;
    EXPECT_FALSE(without->ways.contains(way));
  }
  for (const char *name : {"woven: pace 0, room for W, from the end, pitch 100", "rounds: up to 32, room 50",
                           "list: by turns, oldest, patience 50, with W 50"})
    EXPECT_EQ(std::count(ways.begin(), ways.end(), name), 1) << name;
  EXPECT_EQ(nameOf(Policy{.first = Policy::First::Backward}), "list: backward first, patience 100, with W 100");
}

/// Work of a power above the letters' would take minutes here.
TEST(Search, EndsWithManyChunksOrRanks) {
  for (const auto &[ranks, chunks] : {std::pair(2, 512), std::pair(8'192, 1)}) {
    Problem problem = uniform(ranks, 2, 10, 11, 7);
    problem.stages.resize(size_t(ranks) * size_t(chunks), problem.stages.front());
    problem.rankOf = placed(ranks, ranks * chunks, true);
    problem.memoryLimit = 4 * leastLimit(problem);
    ASSERT_EQ(check(problem), "");
    const std::optional<Solution> solution = solve(problem, {});
    ASSERT_TRUE(solution);
    EXPECT_EQ(verify(problem, solution->words), "");
  }
}

/// The banker's rule: whatever the policy, the placement and the limit, a list schedule ends.
TEST(ListSchedule, NeverStops) {
  Random random(12);
  for (int n = 0; n < pipec::test::rounds(2000); ++n) {
    const Problem problem = randomProblem(random, 4, 9, 9);
    Capacities capacities(size_t(problem.ranks), 0);
    for (size_t s = 0; s < problem.stages.size(); ++s)
      capacities[size_t(problem.rankOf[s])] += problem.stages[s].activation + problem.stages[s].context;
    for (Bytes &bytes : capacities)
      bytes += pick(random, 0, 10);
    Policy policy;
    policy.first = static_cast<Policy::First>(pick(random, 0, 2));
    policy.patience = static_cast<int32_t>(pick(random, 0, 100));
    policy.weightPatience = static_cast<int32_t>(pick(random, 0, 100));
    policy.deepest = pick(random, 0, 1) == 1;
    policy.mostWeights = static_cast<int32_t>(pick(random, 0, 5));
    const std::optional<Words> words = listSchedule(problem, capacities, policy);
    ASSERT_TRUE(words) << n;
    ASSERT_EQ(verify(problem, *words), "");
    for (size_t r = 0; r < words->size(); ++r)
      ASSERT_LE(peakOf(problem, (*words)[r]), capacities[r]);
  }
}

TEST(FillGaps, NeverMakesAnythingLater) {
  Random random(13);
  for (int n = 0; n < pipec::test::rounds(1000); ++n) {
    const Problem problem = randomProblem(random, 4, 7, 8);
    Words words = randomWords(random, problem);
    const Evaluation before = evaluate(problem, words);
    Capacities capacities;
    for (const Bytes peak : before.peak)
      capacities.push_back(peak + pick(random, 0, 5));
    fillGaps(problem, capacities, words, 5);
    ASSERT_EQ(verify(problem, words), "");
    const Evaluation after = evaluate(problem, words);
    EXPECT_LE(after.makespan, before.makespan);
    EXPECT_LE(after.span, before.span);
    for (size_t r = 0; r < capacities.size(); ++r)
      EXPECT_LE(after.peak[r], capacities[r]);
  }
}

} // namespace
} // namespace pipec::schedule::test
