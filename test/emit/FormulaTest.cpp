// Formulas with numbers in them, and their conditions.
#include "compiler/emit/Formula.h"

#include <gtest/gtest.h>

using namespace pipec::emit;

namespace {

const std::vector<Symbol> kSymbols = {{'p', 4, "4"},    {'m', 6, "6"},    {'v', 2, "2"},   {'F', 2, "2 ms"},
                                      {'B', 3, "3 ms"}, {'W', 1, "1 ms"}, {'c', 0, "0 ps"}};

std::vector<std::string> failingHere(const std::string &formula, bool equalStages = true) {
  return failing(formula, kSymbols, equalStages);
}

TEST(Formula, SpellsSymbolsOut) {
  EXPECT_EQ(spelledOut("(p-1)(F+B+W) + 2c(p-1)", kSymbols), "(4-1)(2 ms+3 ms+1 ms) + 2·0 ps(4-1)");
  EXPECT_EQ(spelledOut("pv - r chunks on rank r", kSymbols), "4·2 - r chunks on rank r");
  EXPECT_EQ(spelledOut("(p-1)F", kSymbols), "(4-1)·2 ms");
  EXPECT_EQ(spelledOut("about half of 1F1B's", kSymbols), "about half of 1F1B's");
}

TEST(Formula, NamesConditionsThatFail) {
  EXPECT_EQ(failingHere("(p-1)(F+B-W), equal stages, F >= W, m >= p, no transfers"), std::vector<std::string>());
  EXPECT_EQ(failingHere("x, equal stages, W >= F, m = p; none where (m-1)(F+B) <= 2p", false),
            (std::vector<std::string>{"equal stages", "W >= F", "m = p", "(m-1)(F+B) <= 2p"}));
  EXPECT_EQ(failingHere("(p-1)F where F = B = W of one chunk"), (std::vector<std::string>{"F = B = W of one chunk"}));
  EXPECT_EQ(failingHere("x, m a multiple of v, m a multiple of p"), (std::vector<std::string>{"m a multiple of p"}));
  EXPECT_EQ(failingHere("x, 2F = B + W, m/v >= p - 1"), std::vector<std::string>());
}

TEST(Formula, JudgesNothingElse) {
  EXPECT_EQ(failingHere("min(m, p-r), F, B of a chunk, k >= p, X where y, up to a tenth more where c > 0, p/"),
            std::vector<std::string>());
}

} // namespace
