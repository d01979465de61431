// The rules of a problem, each broken alone, and its derived quantities.
#include "runtime/plan/Limits.h"
#include "test/schedule/Support.h"

#include <gtest/gtest.h>
#include <limits>

namespace pipec::schedule::test {
namespace {

TEST(WireTime, RoundsHalfUpOnce) {
  EXPECT_EQ(wireTime(0, 1), 0);
  EXPECT_EQ(wireTime(5, 0), 0); // unlimited
  EXPECT_EQ(wireTime(1, 1), 1'000'000'000'000);
  EXPECT_EQ(wireTime(1, 3), 333'333'333'333);                   // .33 down
  EXPECT_EQ(wireTime(2, 3), 666'666'666'667);                   // .67 up
  EXPECT_EQ(wireTime(1, 2'000'000'000'000), 1);                 // .5 up
  EXPECT_EQ(wireTime(3, 2'000'000'000'000), 2);                 // 1.5 up
  EXPECT_EQ(wireTime(1, 2'000'000'000'001), 0);                 // just below a half
  EXPECT_EQ(wireTime(16 << 20, 12'500'000'000), 1'342'177'280); // 16 MiB at 12.5 GB/s, exact
}

TEST(WireTime, HoldsIn128Bits) {
  EXPECT_EQ(wireTime(limits::kBytes, 1'000'000'000'000), limits::kBytes); // product past 2^99
  EXPECT_EQ(wireTime(limits::kBytes, std::numeric_limits<int64_t>::max()), 125'000'000'000);
  EXPECT_EQ(wireTime(limits::kBytes, 1), std::numeric_limits<Time>::max());
}

TEST(Problem, LinksHaveExceptionsByDirection) {
  Problem problem = uniform(3, 1, 1, 1, 1, 7);
  problem.links[{0, 1}] = {9, 4};
  EXPECT_EQ(problem.linkBetween(0, 1).latency, 9);
  EXPECT_EQ(problem.linkBetween(1, 0).latency, 7);
}

TEST(Problem, HandOverTakesWireAndLatencyOfTheUpstreamBoundary) {
  Problem problem = uniform(2, 1, 1, 1, 1, 7);
  problem.link.bandwidth = 1'000'000'000'000; // a byte a picosecond
  problem.stages.push_back(problem.stages[0]);
  problem.rankOf = {0, 1, 1};
  problem.stages[0].boundary = 100;
  problem.stages[1].boundary = 1000;
  EXPECT_EQ(problem.handOver(0, 1), 107);
  EXPECT_EQ(problem.handOver(1, 0), 107);
  EXPECT_EQ(problem.handOver(1, 2), 0);
}

TEST(Problem, AGradientMayHaveASizeOfItsOwn) {
  Problem problem = uniform(2, 1, 1, 1, 1, 7);
  problem.link.bandwidth = 1'000'000'000'000; // a byte a picosecond
  problem.stages[0].boundary = 100;
  problem.stages[0].setGradientBack(40);
  EXPECT_EQ(problem.handOver(0, 1), 107);
  EXPECT_EQ(problem.handOver(1, 0), 47);
  const std::map<BufferEnd, Bytes> expected = {
      {{0, 1, true}, 100}, {{1, 0, false}, 100}, {{1, 0, true}, 40}, {{0, 1, false}, 40}};
  EXPECT_EQ(payloads(problem), expected);
  EXPECT_EQ(heldAlways(problem, 2), (std::vector<__int128>{280, 280}));
  problem.stages[0].setGradientBack(0);
  EXPECT_EQ(problem.handOver(1, 0), 7);
  Stage alike = problem.stages[0];
  alike.setGradientBack(100);
  EXPECT_EQ(alike.boundaryGradient, std::nullopt);
}

TEST(Problem, StagesOfARankAscend) {
  Problem problem = uniform(4, 1, 1, 1, 1);
  problem.ranks = 2;
  problem.rankOf = {0, 1, 1, 0};
  EXPECT_EQ(problem.stagesByRank(), (std::vector<std::vector<int32_t>>{{0, 3}, {1, 2}}));
}

TEST(Problem, SharedWeightsAreSummedInARing) {
  Problem problem = uniform(6, 2, 1, 1, 1, 7);
  problem.ranks = 3;
  problem.rankOf = placed(3, 6, false);
  problem.link.bandwidth = 1'000'000'000'000; // a byte a picosecond
  problem.links[{2, 0}] = {9, 1'000'000'000'000};
  problem.shared = {{{3, 4}, {3, 4}, 60}, {{0, 5}, {0, 5}, 60}, {{0, 1, 2}, {0, 1, 2}, 60}, {{0, 3}, {0, 3}, 60}};
  EXPECT_EQ(check(problem), "");
  EXPECT_EQ(ranksOf(problem, problem.shared[1]), (std::vector<int32_t>{0, 2}));
  EXPECT_EQ(sharedSumTime(problem, problem.shared[0]), 2 * 7 + 60);
  EXPECT_EQ(sharedSumTime(problem, problem.shared[1]), 2 * 9 + 60); // the slower way
  EXPECT_EQ(sharedSumTime(problem, problem.shared[2]), 4 * 9 + 4 * 20);
  EXPECT_EQ(sharedSumTime(problem, problem.shared[3]), 0); // both on rank 0
  EXPECT_EQ(sharedSumTime(problem, problem.shared[0], 2, {30, 0}), 6 * 30);
  EXPECT_EQ(sharedSumTime(problem, problem.shared[0], 2, {0, 0}), 6 * 7 + 6 * 15);
  EXPECT_EQ(updateOrder(problem, {0, 3}), (std::vector<int32_t>{3, 0}));
  EXPECT_EQ(updateOrder(problem, {2, 5}), (std::vector<int32_t>{5, 2}));
  problem.shared = {{{0, 6}, {0, 6}, 60}};
  EXPECT_EQ(check(problem), "a shared weight is in stages [0, 6], expected stages 0 to 5, ascending");
  problem.shared = {{{0, 5}, {0, 5}, 0}};
  EXPECT_EQ(check(problem), "a shared weight has gradients of 0 bytes, expected 1 to 1152921504606846976");
  problem.shared = {{{0, 5}, {0, 5}, limits::kBytes}};
  problem.links[{2, 0}] = {0, 1};
  EXPECT_EQ(check(problem), "summing the weight that layers 0, 5 share takes longer than 1000000000000000000 ps, the "
                            "longest step: smaller gradients or a faster link");
}

TEST(Problem, CopiesArePipelinesOfTheirOwn) {
  Problem problem = uniform(6, 2, 1, 1, 1, 7);
  problem.ranks = 3;
  problem.copies = 2;
  problem.rankOf = placedBothWays(3, 3);
  problem.link.bandwidth = 1'000'000'000'000; // a byte a picosecond
  problem.links[{2, 0}] = {9, 1'000'000'000'000};
  for (Stage &stage : problem.stages)
    stage.gradients = 50;
  EXPECT_EQ(check(problem), "");
  EXPECT_EQ(problem.rankOf, (std::vector<int32_t>{0, 1, 2, 2, 1, 0}));
  EXPECT_EQ(problem.after(2), -1);
  EXPECT_EQ(problem.before(3), -1);
  EXPECT_EQ(problem.after(3), 4);
  EXPECT_EQ(problem.partnerOf(0), 2);
  EXPECT_EQ(problem.partnerOf(1), -1); // its copies are its own
  EXPECT_EQ(copySumBytes(problem, 0), 100);
  EXPECT_EQ(copySumTime(problem, 2), 109); // the slower way
  EXPECT_EQ(copySumTime(problem, 1), 0);
  for (Stage &stage : problem.stages)
    stage.gradients = limits::kBytes / 2;
  problem.links[{2, 0}] = {0, 1};
  EXPECT_EQ(check(problem), "summing the gradients of rank 0 and rank 2 takes longer than 1000000000000000000 ps, the "
                            "longest step: smaller gradients or a faster link");
}

TEST(ProblemCheck, RefusesWrongCopiesAndSlices) {
  Problem problem = uniform(3, 4, 1, 1, 1);
  problem.copies = 2;
  EXPECT_EQ(check(problem), "3 stages in 2 copies, expected one copy or two equal ones");
  problem = uniform(4, 4, 1, 1, 1);
  problem.copies = 2;
  EXPECT_EQ(check(problem), "stage 0 is on rank 0 and its copy on rank 2, expected rank 3");
  problem = uniform(2, 5, 1, 1, 1);
  problem.slices = 2;
  EXPECT_EQ(check(problem), "5 microbatches of 2 slices, expected whole ones");
  problem.slices = 5;
  problem.backwardGroup = 2;
  EXPECT_EQ(check(problem), "backwards in groups of 2, expected a multiple of the 5 slices");
}

TEST(ProblemCheck, AcceptsRandomProblems) {
  Random random(1);
  for (int n = 0; n < 200; ++n)
    EXPECT_EQ(check(randomProblem(random, 5, 8, 6)), "");
}

struct Broken {
  const char *name;
  void (*breakIt)(Problem &);
  const char *message;
};

class ProblemCheckRefuses : public testing::TestWithParam<Broken> {};

TEST_P(ProblemCheckRefuses, OneRuleBroken) {
  Problem problem = uniform(4, 8, 10, 11, 8, 1);
  ASSERT_EQ(check(problem), "");
  GetParam().breakIt(problem);
  EXPECT_EQ(check(problem), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Rules, ProblemCheckRefuses,
    testing::Values(
        Broken{"Ranks", [](Problem &p) { p.ranks = 0; }, "0 ranks, expected 1 to 65536"},
        Broken{"Microbatches", [](Problem &p) { p.microbatches = 1 << 21; },
               "2097152 microbatches, expected 1 to 1048576"},
        Broken{"Stages", [](Problem &p) { p.stages.clear(); }, "0 stages, expected 1 to 1048576"},
        Broken{"Instructions",
               [](Problem &p) {
                 p.stages.resize(2048);
                 p.microbatches = 1 << 20;
               },
               "4294969344 instructions a step, expected at most 2147483648: fewer microbatches or stages"},
        Broken{"Placement", [](Problem &p) { p.rankOf.pop_back(); }, "a placement of 3 stages, expected 4"},
        Broken{"PlacementRange", [](Problem &p) { p.rankOf[2] = 4; }, "stage 2 is on rank 4, expected 0 to 3"},
        Broken{"IdleRank", [](Problem &p) { p.rankOf[2] = 1; },
               "rank 2 holds no stage, expected at least one on each rank"},
        Broken{"Cost", [](Problem &p) { p.stages[1].backward = -1; },
               "stage 1 has a backward of -1 ps, expected 0 to 1000000000000000000"},
        Broken{"Size", [](Problem &p) { p.stages[3].context = (int64_t(1) << 60) + 1; },
               "stage 3 has a weight context of 1152921504606846977 bytes, expected 0 to 1152921504606846976"},
        Broken{"Input", [](Problem &p) { p.stages[2].input = p.stages[2].activation + p.stages[2].context + 1; },
               "stage 2 keeps an input of 2 bytes for what takes 1, expected no more than that"},
        Broken{"DefaultLink", [](Problem &p) { p.link.latency = -5; },
               "the default link has a latency of -5 ps, expected 0 to 1000000000000000000"},
        Broken{"Bandwidth", [](Problem &p) { p.links[{0, 1}].bandwidth = -1; },
               "the link from rank 0 to rank 1 has a bandwidth of -1 bytes a second, expected 0 (unlimited) or more"},
        Broken{"LinkRanks", [](Problem &p) { p.links[{2, 2}] = {}; },
               "a link from rank 2 to rank 2, expected two different ranks of 0 to 3"},
        Broken{"StaticRanks", [](Problem &p) { p.staticBytes = {1, 2}; }, "static memory of 2 ranks, expected 4"},
        Broken{"Workspace", [](Problem &p) { p.workspace = {0, 0, -1, 0}; },
               "rank 2 has workspace of -1 bytes, expected 0 to 1152921504606846976"},
        Broken{"Limit", [](Problem &p) { p.memoryLimit = -1; },
               "a memory limit of -1 bytes, expected 0 (none) to 1152921504606846976"},
        Broken{"RankLimit",
               [](Problem &p) {
                 p.memoryLimit = 8;
                 p.withheld = {0, 8, 0, 0};
               },
               "a memory limit of 0 bytes on rank 1, expected 1 to 1152921504606846976"},
        Broken{"Transfer",
               [](Problem &p) {
                 p.link.bandwidth = 1;
                 p.stages[1].boundary = limits::kBytes;
               },
               "the transfer from stage 1 to stage 2 takes longer than 1000000000000000000 ps, the longest step: a "
               "smaller boundary or a faster link"},
        Broken{"TransferBack",
               [](Problem &p) {
                 p.link.bandwidth = 1;
                 p.stages[1].setGradientBack(limits::kBytes);
               },
               "the transfer from stage 2 to stage 1 takes longer than 1000000000000000000 ps, the longest step: a "
               "smaller boundary_gradient or a faster link"},
        Broken{"GradientBack", [](Problem &p) { p.stages[0].setGradientBack(-1); },
               "stage 0 has a boundary gradient of -1 bytes, expected 0 to 1152921504606846976"},
        Broken{"WorkAndTransfers", [](Problem &p) { p.link.latency = limits::kTime / 20; },
               "rank 1 works and moves data longer than 1000000000000000000 ps a step, the longest step: fewer "
               "microbatches or shorter costs, or faster links"},
        Broken{"Work", [](Problem &p) { p.stages[2].forward = limits::kTime; },
               "rank 2 works longer than 1000000000000000000 ps a step, the longest step: fewer microbatches or "
               "shorter costs"}),
    [](const auto &info) { return info.param.name; });

} // namespace
} // namespace pipec::schedule::test
