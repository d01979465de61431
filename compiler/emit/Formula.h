// The catalogue's formulas with numbers in place of symbols, and the conditions of a formula that a problem does not
// meet. A formula is "(p-1)(F+B-W) + transfers, equal stages, F >= W, m >= p": conditions follow commas, semicolons or
// "where".
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

/// A formula with values in place of its symbols: with p = 4, "p-1" becomes "4-1"; with also v = 2, "pv" becomes "4·2".
/// Words that are not a product of symbols, such as the name "1F1B", stay.
std::string spelledOut(const std::string &formula, const std::vector<Symbol> &symbols);

/// The conditions of a formula that do not hold, as written in the formula; conditions that cannot be judged are left
/// out.
std::vector<std::string> failing(const std::string &formula, const std::vector<Symbol> &symbols, bool equalStages);

} // namespace pipec::emit
