// The published schedules: legal for every size, in PyTorch's order, found by PyTorch's names.
#include "test/schedule/Support.h"

#include <gtest/gtest.h>

namespace pipec::schedule::test {
namespace {

TEST(Catalogue, EveryBlockIsLegal) {
  for (const Entry &entry : catalogue())
    for (int32_t p = 1; p <= 33; ++p)
      for (int32_t m : {1, 2, 3, 5, 8, 31, 32, 33, 64, 97})
        for (BackwardMode mode : {BackwardMode::Fused, BackwardMode::Split}) {
          if (!entry.block || !(mode == BackwardMode::Fused ? entry.allowsFused : entry.allowsSplit))
            continue;
          const Problem problem = uniform(p, m, 1, 1, 1, 0, mode);
          const Block block = entry.block(problem);
          ASSERT_EQ(check(problem, block), "") << entry.name << " p=" << p << " m=" << m;
          ASSERT_EQ(verify(problem, repeat(problem, block)), "") << entry.name << " p=" << p << " m=" << m;
        }
}

/// PyTorch's loops, by rank: warm-up forwards, then backward and forward in turn, then backwards.
Words torchOneFOneB(int32_t p, int32_t m) {
  Words words(p);
  for (int32_t r = 0; r < p; ++r) {
    int32_t forwards = std::min(m, p - r);
    words[r].assign(forwards, {r, Letter::F});
    for (int32_t backwards = 0; backwards < m; ++backwards) {
      words[r].push_back({r, Letter::BW});
      if (forwards++ < m)
        words[r].push_back({r, Letter::F});
    }
  }
  return words;
}

Words torchGPipe(int32_t p, int32_t m) {
  Words words(p);
  for (int32_t r = 0; r < p; ++r) {
    words[r].assign(m, {r, Letter::F});
    words[r].insert(words[r].end(), m, {r, Letter::BW});
  }
  return words;
}

/// The split order that stands for a fused one: W directly after B.
Words splitAfter(const Words &fused) {
  Words words(fused.size());
  for (size_t r = 0; r < fused.size(); ++r)
    for (const Op &op : fused[r])
      if (op.letter == Letter::F) {
        words[r].push_back(op);
      } else {
        words[r].push_back({op.stage, Letter::B});
        words[r].push_back({op.stage, Letter::W});
      }
  return words;
}

TEST(Catalogue, OrdersArePyTorchs) {
  for (int32_t p = 1; p <= 17; ++p)
    for (int32_t m = 1; m <= 40; ++m) {
      const Problem fused = uniform(p, m, 1, 1, 1), split = uniform(p, m, 1, 1, 1, 0, BackwardMode::Split);
      EXPECT_EQ(wordsOf("1f1b", fused), torchOneFOneB(p, m)) << p << " " << m;
      EXPECT_EQ(wordsOf("gpipe", fused), torchGPipe(p, m)) << p << " " << m;
      EXPECT_EQ(wordsOf("1f1b", split), splitAfter(torchOneFOneB(p, m))) << p << " " << m;
      EXPECT_EQ(wordsOf("gpipe", split), splitAfter(torchGPipe(p, m))) << p << " " << m;
    }
}

TEST(Catalogue, FindsNamesInAnyCase) {
  for (const char *name : {"1f1b", "1F1B", "Schedule1F1B", "schedule1f1b"})
    ASSERT_TRUE(find(name) && find(name)->name == "1f1b") << name;
  for (const char *name : {"gpipe", "GPipe", "ScheduleGPipe"})
    ASSERT_TRUE(find(name) && find(name)->name == "gpipe") << name;
  EXPECT_EQ(find("2f2b2"), nullptr);
  EXPECT_EQ(find(""), nullptr);
}

TEST(Catalogue, SuggestsTheNearest) {
  EXPECT_EQ(nearest("1f1"), "1f1b");
  EXPECT_EQ(nearest("1B1F"), "");
  EXPECT_EQ(nearest("gpip"), "gpipe");
  EXPECT_EQ(nearest("ScheduelGPipe"), "gpipe");
  EXPECT_EQ(nearest("xyzzy"), "");
  // By meaning, where spelling says nothing or something else.
  EXPECT_EQ(nearest("interleaved"), "interleaved-1f1b");
  EXPECT_EQ(nearest("Zero Bubble"), "zb-h1");
  EXPECT_EQ(nearest("PipeDream_Flush"), "1f1b");
  EXPECT_EQ(nearest("breadth-first"), "looped-bfs");
  // What stands at the beginning, or anywhere in the name or PyTorch's.
  EXPECT_EQ(nearest("eager"), "eager-1f1b");
  EXPECT_EQ(nearest("half"), "v-half");
  EXPECT_EQ(nearest("ScheduleInter"), "interleaved-1f1b");
  EXPECT_EQ(nearest("1f"), "");
  EXPECT_EQ(nearest("v-"), "");
  // What is no schedule of the catalogue, only where it is known too.
  const std::string_view others[] = {"auto", "order"};
  EXPECT_EQ(nearest("search", others), "auto");
  EXPECT_EQ(nearest("csv", others), "order");
  EXPECT_EQ(nearest("csv"), "");
  EXPECT_EQ(nearest(""), "");
  EXPECT_EQ(nearest(std::string(1'000'000, 'a')), "");
}

TEST(Catalogue, EveryEntryExplainsItself) {
  for (const Entry &entry : catalogue()) {
    EXPECT_FALSE(entry.bubble.empty()) << entry.name;
    EXPECT_FALSE(entry.memory.empty()) << entry.name;
    EXPECT_FALSE(entry.source.empty()) << entry.name;
    EXPECT_TRUE(entry.defaultBackward == BackwardMode::Fused ? entry.allowsFused : entry.allowsSplit) << entry.name;
  }
}

} // namespace
} // namespace pipec::schedule::test
