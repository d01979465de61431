// Random pipelines through all passes: with free links, slow links, W on a queue of its own, limits of memory, and pass
// by pass as text.
#include "test/driver/Agreement.h"

#include "compiler/schedule/evaluate/Evaluate.h"
#include "runtime/simulate/Simulate.h"

using namespace pipec;
using namespace pipec::test;

namespace {

TEST_F(Agreement, freeLinks) {
  Random random(1);
  for (int round = 0, last = rounds(400); round != last && !HasFailure(); ++round) {
    RandomPipeline each = random.pipeline();
    SCOPED_TRACE("round " + std::to_string(round) + "\n" + each.text());
    Made made = make(each);
    judge(each, made);
    if (!HasFailure())
      judgeFile(each, made);
  }
}

TEST_F(Agreement, forwardsRunAgain) {
  Random random(7);
  int mixed = 0, contexts = 0;
  for (int round = 0, last = rounds(1000); round != last && !HasFailure();) {
    RandomPipeline each = random.pipeline();
    if (!each.problem.recomputes())
      continue;
    ++round;
    mixed += each.problem.mixed;
    contexts += each.problem.hasBackwardContexts();
    SCOPED_TRACE("round " + std::to_string(round) + "\n" + each.text());
    Made made = make(each);
    judge(each, made);
    if (!HasFailure())
      judgeFile(each, made);
  }
  EXPECT_GT(mixed, seen(50));
  EXPECT_GT(contexts, seen(200));
  EXPECT_GT(hoisted, seen(50));
}

TEST_F(Agreement, slowLinks) {
  Random random(2);
  for (int round = 0, last = rounds(300); round != last && !HasFailure(); ++round) {
    RandomPipeline each = random.pipeline();
    // A byte in a picosecond is 10^12 bytes a second; sizes are below 64 bytes, times below 10^6 ps.
    auto bandwidth = [&] { return int64_t(1'000'000'000'000) / (1 + random.below(random.chance(2) ? 4 : 20'000)); };
    each.problem.link.bandwidth = bandwidth();
    for (auto &[pair, link] : each.problem.links)
      link.bandwidth = random.chance(4) ? 0 : bandwidth();
    SCOPED_TRACE("round " + std::to_string(round) + "\n" + each.text());
    Made made = make(each);
    judge(each, made);
    if (!HasFailure())
      judgeFile(each, made);
  }
}

/// The W of each word, or all else.
schedule::Words only(bool weights, schedule::Words words) {
  for (schedule::Word &word : words)
    std::erase_if(word, [&](schedule::Op op) { return (op.letter == schedule::Letter::W) != weights; });
  return words;
}

/// W on a queue of its own: the rules hold, the run keeps within the proven peak, and that within what the words hold
/// on the rank that needs most.
TEST_F(Agreement, fills) {
  Random random(4);
  int deferring = 0;
  for (int round = 0, last = rounds(400); round != last && !HasFailure();) {
    RandomPipeline each = random.pipeline();
    if (each.problem.backward == schedule::BackwardMode::Fused)
      continue;
    ++round;
    each.fillWeights = true;
    SCOPED_TRACE("round " + std::to_string(round) + "\n" + each.text());
    Made made = make(each);
    ASSERT_EQ(made.errors, "");
    ASSERT_TRUE(made.lowered->rules.ok()) << made.lowered->rules.message;
    ASSERT_TRUE(made.lowered->progress.ok()) << made.lowered->progress.message;
    for (bool weights : {false, true}) // each queue keeps its order
      EXPECT_EQ(only(weights, made.words), only(weights, each.words()));
    schedule::Evaluation ordered = schedule::evaluate(each.problem, each.words());
    int64_t most = *std::max_element(ordered.peak.begin(), ordered.peak.end());
    std::vector<int64_t> held = heldPeaks(made.lowered->variant);
    for (size_t rank = 0; rank != held.size(); ++rank) {
      int64_t proven = made.lowered->result.places[rank].peakActivation;
      EXPECT_LE(held[rank], proven) << rank;
      EXPECT_LE(proven, most) << rank;
      deferring += proven > ordered.peak[rank];
    }
    judgeFile(each, made);
  }
  EXPECT_GT(deferring, seen(100));
}

/// The limit that an error says would do, in bytes; 0 where it says none.
int64_t leastOf(const std::string &errors) {
  const size_t at = errors.find("; the least limit that would do is ");
  return at == std::string::npos ? 0 : std::stoll(errors.substr(errors.find('(', at) + 1));
}

/// Between one slot a ring and what the programs take without a limit, every limit is kept, and nothing else breaks;
/// a byte below the least, the check says what would do, which does, and but for few a byte less does not.
TEST_F(Agreement, memoryLimits) {
  Random random(3);
  int kept = 0, inexact = 0;
  for (int round = 0, last = rounds(200); round != last && !HasFailure(); ++round) {
    RandomPipeline each = random.pipeline();
    SCOPED_TRACE("round " + std::to_string(round) + "\n" + each.text());
    Made free = make(each);
    const int before = hoisted;
    judge(each, free);
    if (HasFailure())
      return;
    const bool moved = hoisted != before; // R move as far as memory allows
    int64_t least = 0, most = 0;
    for (size_t rank = 0; rank != free.programs.size(); ++rank) {
      const plan::Program &program = free.lowered->variant.programs[rank];
      int64_t own = free.lowered->result.places[rank].peak, fewer = 0;
      for (const plan::Ring &ring : program.rings)
        fewer += int64_t(ring.size - 1) * ring.slotBytes;
      most = std::max(most, own);
      least = std::max(least, own - fewer);
    }
    each.problem.memoryLimit = std::max<int64_t>(1, least + random.below(most - least + 1));
    Made limited = make(each);
    // Where several stages of a rank share a pair, one slot may not do, whatever its size.
    bool oneStageEach = each.problem.stages.size() == size_t(each.problem.ranks);
    if (oneStageEach || limited.errors.empty()) {
      judge(each, limited);
      if (HasFailure())
        return;
      judgeFile(each, limited);
      for (const simulate::PlaceResult &rank : limited.lowered->result.places)
        EXPECT_LE(rank.peak, each.problem.memoryLimit);
      ++kept;
    }
    std::vector<int64_t> limits; // by rank
    for (const simulate::PlaceResult &rank : free.lowered->result.places)
      limits.push_back(std::max<int64_t>(1, rank.peak));
    each.problem.limitRanks(limits);
    Made own = make(each);
    if (moved && !own.errors.empty())
      continue;
    EXPECT_EQ(own.errors, "");
    if (HasFailure())
      return;
    judgeFile(each, own);
    for (size_t rank = 0; rank != limits.size(); ++rank)
      EXPECT_LE(own.lowered->result.places[rank].peak, limits[rank]);
    each.problem.withheld.clear();
    if (least > 1 && !moved) {
      each.problem.memoryLimit = least - 1;
      Made tooLittle = make(each);
      const int64_t enough = leastOf(tooLittle.errors);
      ASSERT_NE(enough, 0) << tooLittle.errors;
      each.problem.memoryLimit = enough;
      EXPECT_EQ(make(each).errors, "");
      each.problem.memoryLimit = enough - 1;
      inexact += leastOf(make(each).errors) != enough;
    }
  }
  EXPECT_GT(kept, seen(180));
  EXPECT_GT(hoisted, seen(10));
  EXPECT_LT(inexact, rounds(3)); // where several stages share a pair, few buffers are found, not always the fewest
}

/// Each pass by itself, from text to text, comes to the programs that one compile makes.
TEST_F(Agreement, passesAloneComeToTheSame) {
  Tight tight(6);
  int refused = 0, compared = 0;
  for (int round = 0, last = rounds(100); round != last && !HasFailure(); ++round) {
    RandomPipeline each = tight.next();
    each.anyRings = round % 2 == 1;
    for (bool limited : {false, true}) {
      SCOPED_TRACE("round " + std::to_string(round) + "\n" + each.text());
      Made together = make(each);
      refused += !together.lowered;
      if (!together.lowered)
        break;
      EXPECT_EQ(passByPass(each), textOf(*together.module));
      ++compared;
      if (!limited)
        each.problem.memoryLimit = std::max<int64_t>(
            1, tight.limit(together.lowered->variant, together.lowered->result) - tight.random.below(9));
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(compared, seen(100));
}

} // namespace
