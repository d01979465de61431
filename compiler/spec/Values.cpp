// The walk over tree and table.
#include "compiler/spec/Values.h"

#include "compiler/spec/Scalars.h"
#include "runtime/plan/Limits.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

namespace pipec::spec {
namespace {

std::string below(std::string_view path, std::string_view name) {
  return path.empty() ? std::string(name) : fmt::format("{}.{}", path, name);
}

class Walk {
public:
  explicit Walk(Errors &errors) : errors(errors) {}

  Values values;

  /// `keyPath` is the map's in the table, `path` its own: they differ by the indices of lists.
  void map(const Node &node, std::string_view keyPath, const std::string &path) {
    for (size_t i = 0; i < node.names.size() && !errors.full(); ++i) {
      const Node::Name &name = node.names[i];
      const Key *key = name.text.find('.') == name.text.npos ? findKey(below(keyPath, name.text)) : nullptr;
      if (!key)
        errors.add(name.mark, fmt::format("{}: {}", shown(path, name.text), unknownKey(keyPath, name.text)));
      else
        entry(*key, below(path, name.text), name.mark, node.items[i]);
    }
    for (const Key *key : keysOf(keyPath))
      if (key->required && !partial && !node.find(key->name()))
        errors.add(node.mark, fmt::format("{} is missing", below(path, key->name())));
  }

private:
  Errors &errors;
  bool partial = false; // inside a variant: what is missing there stands in the spec that it is laid over

  static std::string shown(std::string_view path, std::string_view name) { return below(path, spec::shown(name)); }

  void entry(const Key &key, const std::string &path, Mark nameMark, const NodePtr &node) {
    Value value{&key, node->mark, node, false, {}};
    if (partial && key.type == Type::Variants)
      errors.add(nameMark, fmt::format("{}: a variant has no variants of its own", path));
    else
      value.valid = check(key, path, *node, value.numbers);
    values.emplace(path, std::move(value));
  }

  bool wrong(const std::string &path, const Node &node, std::string_view expected) {
    errors.add(node.mark, fmt::format("{}: expected {}, found {}", path, expected, describe(node)));
    return false;
  }

  bool check(const Key &key, const std::string &path, const Node &node, std::vector<Number> &numbers) {
    switch (key.type) {
    case Type::Map:
      return node.isMap() ? (map(node, key.path, path), true) : wrong(path, node, "a map");
    case Type::Maps:
      return maps(key, path, node);
    case Type::Text:
      return text(path, node, kTextBytes, "a word");
    case Type::Name:
      return name(path, node);
    case Type::Free:
      return node.isMap() || wrong(path, node, "a map");
    case Type::Variants:
      return variants(path, node);
    case Type::Integers:
      if (!key.choices.empty() && !node.isSequence())
        return number(path, node, parseChoice(key, node), numbers);
      return node.isSequence() ? list(key, path, node, numbers) : wrong(path, node, "a list of integers");
    case Type::Schedule:
      return schedule(path, node);
    case Type::Placement:
      return node.isSequence() ? rankLists(path, node) : scalar(key, path, node, numbers);
    case Type::Duration:
    case Type::Size:
    case Type::Bandwidth:
    case Type::Integer:
    case Type::Decimal:
    case Type::Boolean:
    case Type::Choice:
      break;
    }
    if ((key.perStage || key.perRank || key.perTensor) && node.isSequence())
      return list(key, path, node, numbers);
    if (node.isMap() && !keysOf(key.path).empty()) // costs.optimizer
      return map(node, key.path, path), true;
    return scalar(key, path, node, numbers);
  }

  bool maps(const Key &key, const std::string &path, const Node &node) {
    if (!node.isSequence())
      return wrong(path, node, "a list of maps");
    bool valid = true;
    for (size_t i = 0; i < node.items.size() && !errors.full(); ++i) {
      std::string itemPath = fmt::format("{}[{}]", path, i);
      const NodePtr &item = node.items[i];
      bool isMap = item->isMap() || wrong(itemPath, *item, "a map");
      values.emplace(itemPath, Value{nullptr, item->mark, item, isMap, {}});
      bool outer = std::exchange(partial, false); // an item of a list is always whole
      if (isMap)
        map(*item, fmt::format("{}[]", key.path), itemPath);
      partial = outer;
      valid &= isMap;
    }
    return valid;
  }

  bool text(const std::string &path, const Node &node, size_t most, std::string_view expected) {
    if (!node.isScalar())
      return wrong(path, node, expected);
    if (node.text.size() <= most)
      return true;
    errors.add(node.mark, fmt::format("{}: expected at most {} bytes, found {}", path, most, node.text.size()));
    return false;
  }

  bool name(const std::string &path, const Node &node) {
    if (!node.isScalar())
      return wrong(path, node, "a name");
    const std::string why = units::wrongName(node.text);
    if (why.empty())
      return true;
    errors.add(node.mark, fmt::format("{}: expected a name of at most {} bytes of UTF-8 without control characters, "
                                      "found {}: {}",
                                      path, limits::kNameBytes, describe(node), why));
    return false;
  }

  /// A list of partial specs, or one parameter of the schedule with a list of its values.
  bool variants(const std::string &path, const Node &node) {
    constexpr std::string_view kExpected = "a list of partial specs, or a map of one parameter of the schedule";
    const bool map = node.isMap() && node.names.size() == 1;
    if (!map && !node.isSequence())
      return wrong(path, node, node.isMap() ? "one parameter of the schedule" : kExpected);
    const Node &items = map ? *node.items[0] : node;
    const std::string itemsPath = map ? shown(path, node.names[0].text) : path;
    if (map && node.names[0].text == "name") {
      errors.add(node.names[0].mark, fmt::format("{}: expected a parameter of the schedule; for other schedules give a "
                                                 "list such as [{{schedule: 1f1b}}, {{schedule: gpipe}}]",
                                                 itemsPath));
      return false;
    }
    if (!items.isSequence())
      return wrong(itemsPath, items, "a list of values, one for each variant");
    const size_t count = items.items.size();
    if (count < 1 || count > static_cast<size_t>(limits::kVariants)) {
      errors.add(items.mark,
                 fmt::format("{}: expected 1 to {} variants, found {}", itemsPath, limits::kVariants, count));
      return false;
    }
    return map ? parameterValues(itemsPath, items) : partialSpecs(path, node);
  }

  bool partialSpecs(const std::string &path, const Node &node) {
    bool valid = true;
    for (size_t i = 0; i < node.items.size() && !errors.full(); ++i) {
      std::string itemPath = fmt::format("{}[{}]", path, i);
      bool isMap = node.items[i]->isMap() || wrong(itemPath, *node.items[i], "a map");
      partial = true;
      if (isMap)
        map(*node.items[i], "", itemPath);
      partial = false;
      valid &= isMap;
    }
    return valid;
  }

  bool parameterValues(const std::string &path, const Node &node) {
    bool valid = true;
    std::map<std::string_view, Mark> first;
    for (size_t i = 0; i < node.items.size() && !errors.full(); ++i) {
      const Node &item = *node.items[i];
      std::string itemPath = fmt::format("{}[{}]", path, i);
      if (!text(itemPath, item, kParameterBytes, "a single value")) {
        valid = false;
      } else if (auto [at, inserted] = first.emplace(item.text, item.mark); !inserted) {
        errors.add(item.mark, fmt::format("{}: {} is given twice", itemPath, quoted(item.text)), at->second,
                   "first given here");
        valid = false;
      }
    }
    return valid;
  }

  bool list(const Key &key, const std::string &path, const Node &node, std::vector<Number> &numbers) {
    if (node.items.empty() && !key.mayBeEmpty) {
      errors.add(node.mark,
                 fmt::format("{}: expected {}, found an empty list", path,
                             key.perRank           ? "one value for each rank"
                             : key.perStage        ? "one value for each stage"
                             : key.choices.empty() ? "integers"
                                                   : fmt::format("integers, or {}", fmt::join(key.choices, ", "))));
      return false;
    }
    bool valid = true;
    for (size_t i = 0; i < node.items.size() && !errors.full(); ++i)
      valid &= scalar(key, fmt::format("{}[{}]", path, i), *node.items[i], numbers);
    return valid;
  }

  /// Appends one number.
  bool scalar(const Key &key, const std::string &path, const Node &node, std::vector<Number> &numbers) {
    if (key.perSample && node.isMap())
      return sampled(key, path, node, numbers);
    return number(path, node, parseScalar(key, node), numbers);
  }

  bool number(const std::string &path, const Node &node, const Quantity &quantity, std::vector<Number> &numbers) {
    if (!quantity.ok()) {
      errors.add(node.mark, fmt::format("{}: {}", path, quantity.error));
      return false;
    }
    numbers.push_back({quantity.value, 0, false, node.mark});
    return true;
  }

  /// {fixed: 1ms, per_sample: 2ms}, or {samples: {1: 43us, 2: 74us}}
  bool sampled(const Key &key, const std::string &path, const Node &node, std::vector<Number> &numbers) {
    Number number{0, 0, true, node.mark};
    bool valid = true;
    const bool table = key.bySamples && node.find("samples");
    for (size_t i = 0; i < node.names.size() && !errors.full(); ++i) {
      const std::string &name = node.names[i].text;
      const Node &item = *node.items[i];
      if (table && name == "samples")
        valid &= bySamples(key, path + ".samples", item, number);
      else if (name != "fixed" && name != "per_sample")
        valid = unknown(path, node.names[i], key.bySamples ? "fixed, per_sample, samples" : "fixed, per_sample");
      else if (table)
        valid = unknown(path, node.names[i], "samples");
      else
        valid &=
            quantity(key, fmt::format("{}.{}", path, name), item, name == "fixed" ? number.fixed : number.perSample);
    }
    if (valid && node.names.empty())
      valid = wrong(path, node,
                    key.bySamples ? "fixed or per_sample, or both, or samples" : "fixed or per_sample, or both");
    numbers.push_back(std::move(number));
    return valid;
  }

  bool unknown(const std::string &path, const Node::Name &name, std::string_view known) {
    errors.add(name.mark, fmt::format("{}: unknown key; known here: {}", shown(path, name.text), known));
    return false;
  }

  /// {1: 43us, 2: 74us}: no number twice, since no map has a key twice.
  bool bySamples(const Key &key, const std::string &path, const Node &node, Number &number) {
    if (!node.isMap() || node.names.empty())
      return wrong(path, node, "times by numbers of samples, such as {1: 43us, 2: 74us}");
    bool valid = true;
    for (size_t i = 0; i < node.names.size() && !errors.full(); ++i) {
      const Quantity samples = parseInteger(node.names[i].text, 1, limits::kTime);
      if (!samples.ok()) {
        errors.add(node.names[i].mark, fmt::format("{}: {}", path, samples.error));
        valid = false;
        continue;
      }
      schedule::TimeOfSamples entry{samples.value, 0};
      valid &= quantity(key, fmt::format("{}.{}", path, samples.value), *node.items[i], entry.time);
      number.bySamples.push_back(entry);
    }
    std::ranges::sort(number.bySamples, {}, &schedule::TimeOfSamples::samples);
    return valid;
  }

  bool quantity(const Key &key, const std::string &path, const Node &node, int64_t &into) {
    const Quantity quantity = parseScalar(key, node);
    if (!quantity.ok())
      errors.add(node.mark, fmt::format("{}: {}", path, quantity.error));
    into = quantity.value;
    return quantity.ok();
  }

  bool schedule(const std::string &path, const Node &node) {
    if (!node.isMap())
      return (node.isScalar() && node.text.empty()) ? wrong(path, node, "a name, or a map with a name")
                                                    : text(path, node, kTextBytes, "a name, or a map with a name");
    bool valid = true;
    for (size_t i = 0; i < node.names.size() && !errors.full(); ++i) {
      const Node &item = *node.items[i];
      std::string itemPath = shown(path, node.names[i].text);
      if (node.names[i].text.size() > kParameterBytes) {
        errors.add(node.names[i].mark, fmt::format("{}: expected the name of a parameter, at most {} bytes, found {}",
                                                   itemPath, kParameterBytes, node.names[i].text.size()));
        valid = false;
      }
      if (node.names[i].text == "name" && item.isScalar() && item.text.empty())
        valid = wrong(itemPath, item, "a name");
      else if (node.names[i].text == "name")
        valid &= text(itemPath, item, kTextBytes, "a name");
      else if (item.isSequence())
        for (size_t j = 0; j < item.items.size() && !errors.full(); ++j)
          valid &= text(fmt::format("{}[{}]", itemPath, j), *item.items[j], kParameterBytes, "a single value");
      else
        valid &= text(itemPath, item, kTextBytes, "a single value or a list of them");
    }
    if (!partial && !node.find("name")) {
      errors.add(node.mark, fmt::format("{}.name is missing", path));
      valid = false;
    }
    return valid;
  }

  bool rankLists(const std::string &path, const Node &node) {
    bool valid = true;
    for (size_t rank = 0; rank < node.items.size() && !errors.full(); ++rank) {
      const Node &stages = *node.items[rank];
      std::string rankPath = fmt::format("{}[{}]", path, rank);
      if (!stages.isSequence() || stages.items.empty()) {
        errors.add(stages.mark, fmt::format("{}: expected the list of the rank's stages, found {}", rankPath,
                                            stages.isSequence() ? "an empty one" : describe(stages)));
        valid = false;
        continue;
      }
      Key stage{.path = "stage", .type = Type::Integer, .most = limits::kStages - 1};
      std::vector<Number> ignored;
      for (size_t i = 0; i < stages.items.size() && !errors.full(); ++i)
        valid &= scalar(stage, fmt::format("{}[{}]", rankPath, i), *stages.items[i], ignored);
    }
    return valid;
  }
};

} // namespace

Values checkValues(const NodePtr &root, Errors &errors) {
  Walk walk(errors);
  walk.map(*root, "", "");
  return std::move(walk.values);
}

} // namespace pipec::spec
