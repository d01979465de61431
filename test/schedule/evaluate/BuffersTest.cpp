// How many transfer buffers words need: enough for a run with so many, and no more than out of order at a receiver.
#include "compiler/schedule/evaluate/Buffers.h"
#include "compiler/schedule/evaluate/Evaluate.h"
#include "compiler/schedule/search/Search.h"
#include "test/schedule/Support.h"

#include <gtest/gtest.h>

#include <functional>

namespace pipec::schedule::test {
namespace {

/// Runs words with so many buffers, each pair's transfers in the order in which they are made, one event at a time,
/// drawn at random: what ends once ends always.
class BoundedRun {
public:
  BoundedRun(const Problem &problem, const Words &words, const Buffers &buffers)
      : problem(problem), words(words), buffers(buffers), at(words.size(), 0), done(problem.stages.size(), {0, 0}) {}

  bool ends(Random &random) {
    while (true) {
      std::vector<std::function<void()>> possible;
      for (size_t r = 0; r < words.size(); ++r)
        if (at[r] < words[r].size() && canRunNext(r))
          possible.push_back([this, r] {
            for (bool more = true; more;) { // both of an overlapped pair
              more = words[r][at[r]].overlapped;
              run(words[r][at[r]++]);
            }
          });
      for (auto &[key, pair] : pairs)
        if (pair.moved < pair.made.size() && canReceive(key, pair))
          possible.push_back([&pair] { ++pair.moved; });
      if (possible.empty())
        break;
      possible[size_t(pick(random, 0, int64_t(possible.size()) - 1))]();
    }
    for (size_t r = 0; r < words.size(); ++r)
      if (at[r] < words[r].size())
        return false;
    return true;
  }

private:
  struct Transfer {
    int32_t stage; // that takes it
    bool forward;
    int32_t microbatch;
    bool taken = false;
  };
  struct Pair {
    std::vector<Transfer> made;
    size_t moved = 0;
  };

  const Problem &problem;
  const Words &words;
  const Buffers &buffers;
  std::vector<size_t> at;
  std::vector<std::array<int32_t, 2>> done; // forwards, backwards
  std::map<std::pair<int32_t, int32_t>, Pair> pairs;

  int32_t rankOf(int32_t stage) const { return problem.rankOf[size_t(stage)]; }
  int32_t from(Op op) const { return op.letter == Letter::F ? problem.before(op.stage) : problem.after(op.stage); }
  int32_t to(Op op) const { return op.letter == Letter::F ? problem.after(op.stage) : problem.before(op.stage); }
  bool isLocal(int32_t stage, int32_t other) const { return other < 0 || rankOf(stage) == rankOf(other); }

  bool canReceive(std::pair<int32_t, int32_t> key, const Pair &pair) const {
    const auto size = size_t(buffers.at({key.second, key.first, false}));
    return pair.moved < size || pair.made[pair.moved - size].taken;
  }
  Transfer *input(Op op) {
    for (Transfer &each : pairs[{rankOf(from(op)), rankOf(op.stage)}].made)
      if (each.stage == op.stage && each.forward == (op.letter == Letter::F) &&
          each.microbatch == done[size_t(op.stage)][op.letter != Letter::F])
        return &each;
    return nullptr;
  }
  bool canRunNext(size_t r) {
    const Op op = words[r][at[r]];
    if (!op.overlapped)
      return canRun(op);
    const Op other = words[r][at[r] + 1];
    if (!canRun(op) || !canRun(other))
      return false;
    if (isLocal(op.stage, to(op)) || isLocal(other.stage, to(other)) || rankOf(to(op)) != rankOf(to(other)))
      return true;
    const Pair &pair = pairs[{rankOf(op.stage), rankOf(to(op))}];
    return pair.made.size() - pair.moved + 2 <= size_t(buffers.at({rankOf(op.stage), rankOf(to(op)), true}));
  }
  bool canRun(Op op) {
    if (op.letter == Letter::W)
      return true;
    if (!isLocal(op.stage, from(op))) {
      Pair &pair = pairs[{rankOf(from(op)), rankOf(op.stage)}];
      Transfer *transfer = input(op);
      if (!transfer || size_t(transfer - pair.made.data()) >= pair.moved)
        return false;
    }
    if (isLocal(op.stage, to(op)))
      return true;
    const Pair &pair = pairs[{rankOf(op.stage), rankOf(to(op))}];
    return pair.made.size() - pair.moved < size_t(buffers.at({rankOf(op.stage), rankOf(to(op)), true}));
  }
  void run(Op op) {
    if (op.letter == Letter::W)
      return;
    if (!isLocal(op.stage, from(op)))
      input(op)->taken = true;
    const int32_t microbatch = done[size_t(op.stage)][op.letter != Letter::F]++;
    if (!isLocal(op.stage, to(op)))
      pairs[{rankOf(op.stage), rankOf(to(op))}].made.push_back({to(op), op.letter == Letter::F, microbatch});
  }
};

TEST(Buffers, WithThemAnyWordsEnd) {
  Random random(31);
  int few = 0;
  for (int n = 0; n < 400; ++n) {
    Problem problem = randomProblem(random, 4, 7, 8);
    Words words = randomWords(random, problem);
    if (n % 2 == 0)
      overlapSome(random, problem, words);
    Buffers buffers = buffersFor(problem, words, std::vector<__int128>(size_t(problem.ranks), 0));
    EXPECT_TRUE(BoundedRun(problem, words, buffers).ends(random)) << n;
    for (auto &[end, count] : buffers)
      count = 1;
    few += !BoundedRun(problem, words, buffers).ends(random);
  }
  EXPECT_GT(few, 50); // one each is too few for many
}

TEST(Buffers, OneEachIsEnoughWhereAllGoesInOrder) {
  for (const char *name : {"gpipe", "1f1b"}) {
    const Problem problem = uniform(5, 9, 1, 1, 1);
    const Buffers buffers = buffersFor(problem, wordsOf(name, problem), std::vector<__int128>(5, 0));
    EXPECT_EQ(buffers.size(), 16u);
    for (const auto &[end, count] : buffers)
      EXPECT_EQ(count, end.sends && std::string(name) == "gpipe" ? count : 1) << name;
  }
}

TEST(Buffers, AReceiverHoldsWhatItTakesOutOfOrder) {
  // Stages 0 and 2 on rank 0, 1 and 3 on rank 1. Three F of stage 0 come first; rank 1 takes the third behind two more
  // rounds of F of stage 2 and its B, and holds from it to the last of these.
  Problem problem = uniform(4, 3, 1, 1, 1);
  problem.ranks = 2;
  problem.rankOf = {0, 1, 0, 1};
  for (Stage &stage : problem.stages)
    stage.boundary = 7;
  using enum Letter;
  const Words words = {
      {{0, F}, {0, F}, {0, F}, {2, F}, {2, BW}, {0, BW}, {2, F}, {2, BW}, {0, BW}, {2, F}, {2, BW}, {0, BW}},
      {{1, F}, {3, F}, {3, BW}, {1, BW}, {1, F}, {3, F}, {3, BW}, {1, BW}, {1, F}, {3, F}, {3, BW}, {1, BW}}};
  ASSERT_EQ(verify(problem, words), "");
  Buffers buffers = buffersFor(problem, words, {0, 0});
  EXPECT_EQ(buffers.at({1, 0, false}), 5);
  EXPECT_EQ(buffers.at({0, 1, true}), 1);
  EXPECT_EQ(bytesOf(problem, buffers)[1], 7 * (5 + 1));
  Random random(1);
  EXPECT_TRUE(BoundedRun(problem, words, buffers).ends(random));
  --buffers[{1, 0, false}];
  EXPECT_FALSE(BoundedRun(problem, words, buffers).ends(random));
}

/// Each end's need beside what the words hold is within the limit, at sizes where two an end are too few.
TEST(Search, LeavesRoomForTheBuffersThatItsWordsNeed) {
  for (const bool back : {false, true})
    for (const Bytes limit : {90, 130, 200}) {
      Problem problem = uniform(16, 24, 5, 5, 4, 1, BackwardMode::Split);
      problem.ranks = 8;
      problem.rankOf = placed(8, 16, back);
      for (Stage &stage : problem.stages) {
        stage.activation = 6;
        stage.context = 2;
        stage.boundary = 1;
      }
      problem.memoryLimit = limit;
      const std::optional<Solution> solution = solve(problem, {.effort = 25});
      ASSERT_TRUE(solution);
      std::vector<__int128> room;
      for (const Word &word : solution->words)
        room.push_back(limit - peakOf(problem, word));
      const std::vector<__int128> need = bytesOf(problem, buffersFor(problem, solution->words, room));
      for (size_t r = 0; r < room.size(); ++r)
        EXPECT_LE(need[r], room[r]) << back << " " << limit << " rank " << r;
    }
}

// What both of a pair send to one rank needs two buffers, however much room there is where it goes.
TEST(Buffers, APairSendsFromTwo) {
  Problem problem = uniform(2, 4, 1, 1, 1, 0, BackwardMode::Split);
  problem.stages.resize(4, problem.stages.front());
  for (Stage &stage : problem.stages)
    stage.overlapped = 2;
  problem.rankOf = placed(2, 4, true);
  const Words words = schedule::wordsOf(*find("dualpipe-v"), problem, {});
  const Buffers buffers = buffersFor(problem, words, {0, 1000});
  EXPECT_EQ(buffers.at({0, 1, true}), 2);
}

} // namespace
} // namespace pipec::schedule::test
