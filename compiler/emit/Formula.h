// The catalogue's formulas with a problem's numbers in place of symbols, and which of a formula's conditions do not
// hold for the problem. A formula is "(p-1)(F+B-W) + transfers, equal stages, F >= W, m >= p": conditions stand behind
// commas, semicolons or "where".
#pragma once

#include <string>
#include <vector>

namespace pipec::emit {

/// A letter of a formula and its value.
struct Symbol {
  char name;
  double value;
  std::string text; // "4", "2 ms"
};

/// A formula with values in the place of its symbols: p of 4 makes "4-1" of "p-1", and, with v of 2, "4·2" of "pv".
/// Words that are no product of symbols, such as the name "1F1B", stay.
std::string spelledOut(const std::string &formula, const std::vector<Symbol> &symbols);

/// The conditions of a formula that do not hold, as the formula has them; those that cannot be judged are left out.
std::vector<std::string> failing(const std::string &formula, const std::vector<Symbol> &symbols, bool equalStages);

} // namespace pipec::emit
