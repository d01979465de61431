// Overlays made and named, and the rules between variants.
#include "compiler/spec/Variants.h"

#include "compiler/spec/Keys.h"
#include "runtime/plan/Units.h"

#include <fmt/format.h>
#include <map>

namespace pipec::spec {
namespace {

NodePtr mapOfOne(const std::string &name, Mark mark, NodePtr value) {
  auto map = std::make_shared<Node>();
  map->kind = Node::Kind::Map;
  map->mark = mark;
  map->values = 2 + value->values;
  map->height = 1 + value->height;
  map->names.push_back({name, mark});
  map->items.push_back(std::move(value));
  return map;
}

/// The name that a variant has of what it says; of its place, if a plan cannot hold that name.
std::string ownName(std::string name, size_t index) {
  const bool fits = !name.empty() && units::wrongName(name).empty();
  return fits ? std::move(name) : fmt::format("variant {}", index);
}

/// {k: [1, 2]} as {schedule: {k: 1}}, {schedule: {k: 2}}
std::vector<Overlay> ofParameter(const Node::Name &name, const Node &list) {
  std::vector<Overlay> result;
  for (const NodePtr &value : list.items)
    result.push_back({mapOfOne("schedule", value->mark, mapOfOne(name.text, value->mark, value)), value->mark,
                      ownName(fmt::format("{}={}", name.text, value->text), result.size())});
  return result;
}

/// 1,2,1
std::string joined(const Node &list) {
  std::string text;
  for (const NodePtr &item : list.items)
    text += (text.empty() ? "" : ",") + item->text;
  return text;
}

/// The schedule that it names, with its parameters; empty if it names none.
std::string nameOf(const Node &partial) {
  const Node *schedule = partial.find("schedule");
  if (!schedule || schedule->isScalar())
    return schedule ? schedule->text : "";
  std::string name, parameters;
  for (size_t i = 0; i < schedule->names.size(); ++i) {
    const Node &value = *schedule->items[i];
    if (schedule->names[i].text == "name")
      name = value.text;
    else if (value.isScalar())
      parameters += fmt::format(" {}={}", schedule->names[i].text, value.text);
    else if (value.isSequence())
      parameters += fmt::format(" {}={}", schedule->names[i].text, joined(value));
  }
  return name.empty() ? "" : name + parameters;
}

bool sameTree(const Node &a, const Node &b) {
  if (&a == &b)
    return true;
  if (a.kind != b.kind || a.text != b.text || a.items.size() != b.items.size())
    return false;
  for (size_t i = 0; i < a.items.size(); ++i)
    if ((a.isMap() && a.names[i].text != b.names[i].text) || !sameTree(*a.items[i], *b.items[i]))
      return false;
  return true;
}

/// By what they mean where the table says what that is, so that 1ms is 1000us; otherwise as written.
bool sameValue(const Value &a, const Value &b) {
  // What stands in maps of the table has values of its own.
  const bool isOfTable = !a.key || a.key->type == Type::Maps || (a.node->isMap() && a.key->type != Type::Free);
  if (a.numbers.empty() || a.numbers.size() != b.numbers.size())
    return a.numbers.empty() && b.numbers.empty() && (isOfTable || sameTree(*a.node, *b.node));
  for (size_t i = 0; i < a.numbers.size(); ++i)
    if (a.numbers[i].fixed != b.numbers[i].fixed || a.numbers[i].perSample != b.numbers[i].perSample ||
        a.numbers[i].bySamples != b.numbers[i].bySamples)
      return false;
  return true;
}

} // namespace

std::vector<Overlay> overlaysOf(const Node &variants) {
  if (variants.isMap())
    return ofParameter(variants.names[0], *variants.items[0]);
  std::map<std::string, int> uses;
  for (const NodePtr &item : variants.items)
    ++uses[nameOf(*item)];
  std::vector<Overlay> result;
  for (size_t i = 0; i < variants.items.size(); ++i) {
    const NodePtr &item = variants.items[i];
    std::string name = nameOf(*item);
    bool own = !name.empty() && uses[name] == 1 && !name.starts_with("variant ");
    result.push_back({item, item->mark, ownName(own ? std::move(name) : "", i)});
  }
  return result;
}

bool VariantSizes::count(int64_t more, Mark mark) {
  constexpr int64_t kMost = 4 * kTreeValues;
  values += more;
  if (values > kMost)
    errors.add(mark, fmt::format("variants: more than {} values and stages in all, counting what each variant repeats",
                                 kMost));
  return values <= kMost;
}

void SharedByVariants::add(Values values, const std::optional<Marked<int32_t>> &microbatchSize) {
  if (!any) {
    any = true;
    first = std::move(values);
    firstSize = microbatchSize;
    return;
  }
  for (const char *path : {"pipeline.ranks", "pipeline.stages_per_rank", "pipeline.placement", "pipeline.cut", "layers",
                           "shared", "tensor_parallel.shards", "tensor_parallel.sequence", "jobs.slow_down",
                           "jobs.collectives", "jobs.work", "provider"})
    same(path, values);
  if (firstSize && microbatchSize && firstSize->value != microbatchSize->value) {
    sampled(first, microbatchSize->mark);
    sampled(values, microbatchSize->mark);
  }
}

void SharedByVariants::same(const char *path, const Values &values) const {
  auto differ = [&](const Value &own, Mark other) {
    errors.add(own.mark, fmt::format("{}: expected the same in all variants, found another", path), other,
               "the first variant's is given here");
  };
  auto mine = values.find(path), its = first.find(path);
  if (mine == values.end() || its == first.end()) {
    if (mine != values.end())
      errors.add(mine->second.mark,
                 fmt::format("{}: expected the same in all variants, found none in the first", path));
    else if (its != first.end())
      errors.add(its->second.mark,
                 fmt::format("{}: expected the same in all variants, found it in the first alone", path));
    return;
  }
  if (mine->second.node == its->second.node)
    return;
  if (mine->second.key->type != Type::Maps) {
    if (!sameValue(mine->second, its->second))
      differ(mine->second, its->second.mark);
    return;
  }
  // Lists of maps by the values below, which stand in order of path in both.
  auto below = [&](const Values &all) {
    return std::pair(all.lower_bound(fmt::format("{}[", path)), all.lower_bound(fmt::format("{}\\", path)));
  };
  auto [a, endA] = below(values);
  auto [b, endB] = below(first);
  for (; a != endA && b != endB; ++a, ++b)
    if (a->first != b->first || !sameValue(a->second, b->second))
      return differ(mine->second, its->second.mark);
  if (a != endA || b != endB)
    differ(mine->second, its->second.mark);
}

void SharedByVariants::sampled(const Values &values, Mark size) const {
  for (const auto &[path, value] : values)
    if (value.key && value.key->perSample)
      for (const Number &number : value.numbers)
        if (!number.sampled)
          errors.add(number.mark,
                     fmt::format("{}: expected {{fixed, per_sample}}, since variants differ in the size of a "
                                 "microbatch",
                                 path),
                     size, "another size is given here");
}

} // namespace pipec::spec
