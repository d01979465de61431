#include "compiler/emit/Formula.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

namespace pipec::emit {

namespace {

bool isLetter(char c) { return std::isalpha(static_cast<unsigned char>(c)); }
bool isDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)); }

const Symbol *find(const std::vector<Symbol> &symbols, char name) {
  const auto found =
      std::find_if(symbols.begin(), symbols.end(), [&](const Symbol &each) { return each.name == name; });
  return found == symbols.end() ? nullptr : &*found;
}

/// Evaluates sums of products, in which factors stand side by side, and comparisons of sums.
class Parser {
public:
  Parser(std::string_view text, const std::vector<Symbol> &symbols) : text(text), symbols(symbols) {}

  /// Whether "a <= b" or "a = b = c" holds; nothing where the text is something else.
  std::optional<bool> comparison() {
    bool holds = true, any = false;
    double left = sum();
    while (known && at != text.size()) {
      const std::string_view sign = relation();
      const double right = sum();
      any = true;
      holds &= sign == "=" ? left == right : sign == "<=" ? left <= right : sign == ">=" && left >= right;
      left = right;
    }
    return known && any ? std::optional(holds) : std::nullopt;
  }

  /// The value of all of the text; nothing where it is no sum.
  std::optional<double> value() {
    const double result = sum();
    return known && at == text.size() ? std::optional(result) : std::nullopt;
  }

private:
  void blanks() {
    while (at != text.size() && text[at] == ' ')
      ++at;
  }
  bool take(std::string_view sign) {
    blanks();
    if (!text.substr(at).starts_with(sign))
      return false;
    at += sign.size();
    return true;
  }
  std::string_view relation() {
    for (std::string_view sign : {"<=", ">=", "="})
      if (take(sign))
        return sign;
    known = false;
    return "";
  }
  double sum() {
    double result = product();
    while (known) {
      if (take("+"))
        result += product();
      else if (take("-"))
        result -= product();
      else
        break;
    }
    blanks();
    return result;
  }
  double product() {
    double result = factor();
    while (known && at != text.size()) {
      if (take("/"))
        result /= factor();
      else if (isDigit(text[at]) || isLetter(text[at]) || text[at] == '(')
        result *= factor();
      else
        break;
    }
    return result;
  }
  double factor() {
    blanks();
    if (take("(")) {
      const double inner = sum();
      known &= take(")");
      return inner;
    }
    if (at != text.size() && isDigit(text[at])) {
      double number = 0;
      for (; at != text.size() && isDigit(text[at]); ++at)
        number = 10 * number + (text[at] - '0');
      return number;
    }
    const Symbol *symbol = at == text.size() ? nullptr : find(symbols, text[at]);
    known &= symbol != nullptr;
    if (!symbol)
      return 0;
    ++at;
    return symbol->value;
  }

  std::string_view text;
  const std::vector<Symbol> &symbols;
  size_t at = 0;
  bool known = true; // so far
};

/// The clauses of a formula: what stands between commas and semicolons outside of brackets, and behind each "where".
std::vector<std::string> clausesOf(const std::string &formula) {
  std::vector<std::string> clauses(1);
  int depth = 0;
  for (size_t i = 0; i < formula.size(); ++i) {
    depth += formula[i] == '(' ? 1 : formula[i] == ')' ? -1 : 0;
    const bool isWhere = formula.compare(i, 7, " where ") == 0;
    if (depth == 0 && (isWhere || formula.compare(i, 2, ", ") == 0 || formula.compare(i, 2, "; ") == 0)) {
      clauses.emplace_back();
      i += isWhere ? 6 : 1;
    } else {
      clauses.back() += formula[i];
    }
  }
  return clauses;
}

bool isMultiple(double value, double of) { return of != 0 && std::fmod(value, of) == 0; }

/// Whether a clause holds; nothing where it is no condition, or of what is not known.
std::optional<bool> holds(const std::string &clause, const std::vector<Symbol> &symbols, bool equalStages) {
  if (clause == "equal stages")
    return equalStages;
  if (clause == "no transfers") {
    const Symbol *transfer = find(symbols, 'c');
    return transfer ? std::optional(transfer->value == 0) : std::nullopt;
  }
  constexpr std::string_view kMultiple = " a multiple of ";
  if (const size_t at = clause.find(kMultiple); at != std::string::npos) {
    const std::optional<double> value = Parser(std::string_view(clause).substr(0, at), symbols).value();
    const std::optional<double> of = Parser(std::string_view(clause).substr(at + kMultiple.size()), symbols).value();
    return value && of ? std::optional(isMultiple(*value, *of)) : std::nullopt;
  }
  // "F = B = W of one chunk": of which the symbols are, says spelledOut's caller.
  return Parser(std::string_view(clause).substr(0, clause.find(" of ")), symbols).comparison();
}

} // namespace

std::string spelledOut(const std::string &formula, const std::vector<Symbol> &symbols) {
  std::string text;
  for (size_t i = 0; i < formula.size();) {
    if (!isLetter(formula[i]) && !isDigit(formula[i])) {
      text += formula[i++];
      continue;
    }
    size_t end = i;
    while (end != formula.size() && (isLetter(formula[end]) || isDigit(formula[end])))
      ++end;
    const std::string word = formula.substr(i, end - i);
    const size_t letters = std::min(word.find_first_not_of("0123456789"), word.size());
    // A number and symbols alone are their product; any other is a word.
    if (std::all_of(word.begin() + letters, word.end(), [&](char c) { return find(symbols, c) != nullptr; })) {
      text += word.substr(0, letters);
      bool isFirst = letters == 0 && (i == 0 || formula[i - 1] != ')');
      for (const char c : word.substr(letters))
        text += (std::exchange(isFirst, false) ? "" : "·") + find(symbols, c)->text;
    } else {
      text += word;
    }
    i = end;
  }
  return text;
}

std::vector<std::string> failing(const std::string &formula, const std::vector<Symbol> &symbols, bool equalStages) {
  std::vector<std::string> result;
  for (const std::string &clause : clausesOf(formula))
    if (!holds(clause, symbols, equalStages).value_or(true))
      result.push_back(clause);
  return result;
}

} // namespace pipec::emit
