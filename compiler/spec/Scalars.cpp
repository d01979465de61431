// Text to numbers, with what a message says was expected.
#include "compiler/spec/Scalars.h"

#include "compiler/spec/Diagnostic.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

namespace pipec::spec {

Quantity parseChoice(const Key &key, const Node &node) {
  const std::string_view text = node.isScalar() ? std::string_view(node.text) : "";
  auto at = std::find(key.choices.begin(), key.choices.end(), text);
  if (node.isScalar() && at != key.choices.end())
    return {at - key.choices.begin(), {}};
  std::string_view near = nearest(text, key.choices);
  return {0, fmt::format("expected {}{}, found {}{}", fmt::join(key.choices, ", "),
                         key.type == Type::Placement  ? ", or a list for each rank"
                         : key.type == Type::Integers ? ", or a list of integers"
                                                      : "",
                         describe(node), near.empty() ? "" : fmt::format("; did you mean '{}'?", near))};
}

Quantity parseScalar(const Key &key, const Node &node) {
  // What is no scalar is shown to the parser as nothing, and by its own name to the person.
  auto finish = [&](Quantity quantity) {
    if (node.isScalar())
      return quantity;
    quantity.error = quantity.error.substr(0, quantity.error.rfind(", found")) + ", found " + describe(node);
    return quantity;
  };
  std::string_view text = node.isScalar() ? std::string_view(node.text) : "";
  bool quotes = node.isScalar() && !node.plain;
  switch (key.type) {
  case Type::Duration: {
    Quantity quantity = parseDuration(text);
    if (quantity.ok() && quantity.value < key.least)
      return {0, fmt::format("expected at least {}ps, found {}", key.least, quoted(text))};
    return finish(std::move(quantity));
  }
  case Type::Size: {
    if (node.isScalar() && std::find(key.choices.begin(), key.choices.end(), text) != key.choices.end())
      return parseChoice(key, node);
    Quantity quantity = parseSize(text);
    if (!quantity.ok() && !key.choices.empty())
      quantity.error = fmt::format("{}, or {}", quantity.error, fmt::join(key.choices, ", "));
    if (quantity.ok() && quantity.value < key.least)
      return {0, fmt::format("expected at least {}B, found {}", key.least, quoted(text))};
    return finish(std::move(quantity));
  }
  case Type::Bandwidth:
    return finish(parseBandwidth(text));
  case Type::Integer:
  case Type::Integers:
    if (quotes)
      return {0, fmt::format("expected an integer without quotes, found \"{}\"", node.text.substr(0, 40))};
    return finish(parseInteger(text, key.least, key.most));
  case Type::Decimal: {
    if (node.isScalar() && std::find(key.choices.begin(), key.choices.end(), text) != key.choices.end())
      return parseChoice(key, node);
    const bool isPercentage = key.percent && text.ends_with('%'); // as any value with a unit, also in quotes
    Quantity quantity =
        (key.percent ? parsePart : parseDecimal)(quotes && !isPercentage ? "" : text, key.least, key.most);
    if (!quantity.ok() && !key.choices.empty())
      quantity.error = fmt::format("expected {}, or {}", fmt::join(key.choices, ", "), quantity.error.substr(9));
    if (!quantity.ok() && quotes)
      quantity.error = quantity.error.substr(0, quantity.error.rfind(", found")) + ", found " + describe(node);
    return finish(std::move(quantity));
  }
  case Type::Boolean:
    if (node.isScalar() && node.plain && (text == "true" || text == "false"))
      return {text == "true", {}};
    return {0, fmt::format("expected true or false, found {}", describe(node))};
  default:
    return parseChoice(key, node);
  }
}

} // namespace pipec::spec
