// One tree laid over another: what --set lays over a spec, what a variant does.
#include "compiler/spec/Tree.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <unordered_map>

namespace pipec::spec {
namespace {

/// Of a map that was changed.
void recount(Node &map) {
  map.values = 1 + static_cast<int64_t>(map.names.size());
  map.height = 1;
  for (const NodePtr &item : map.items) {
    map.values += item->values;
    map.height = std::max(map.height, 1 + item->height);
  }
}

/// A step of a path: a key, or an entry of a list, [2]. `until`: where it ends in the path.
struct Step {
  std::string_view name;
  int64_t index = -1; // -1: it is a key
  size_t until = 0;
};

/// costs.forward, layers[2].forward; empty if it is no path.
std::vector<Step> stepsOf(std::string_view path) {
  std::vector<Step> steps;
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find_first_of(".[", at), path.size());
    if (end == at || path.substr(at, end - at).find(']') != path.npos)
      return {};
    steps.push_back({path.substr(at, end - at), -1, end});
    for (at = end; at < path.size() && path[at] == '[';) {
      Step &entry = steps.emplace_back();
      const char *digits = path.data() + at + 1, *last = path.data() + path.size();
      const auto [next, wrong] = std::from_chars(digits, last, entry.index);
      if (wrong != std::errc() || *digits == '-' || next == last || *next != ']')
        return {};
      at = entry.until = size_t(next - path.data()) + 1;
    }
    if (at < path.size() && path[at] != '.')
      return {};
    ++at; // behind the dot, or behind the end
  }
  return steps.size() > size_t(kTreeDepth) ? std::vector<Step>() : steps;
}

/// Lays a value over what one path leads to.
struct Overlaying {
  std::string_view path;
  const std::vector<Step> &steps;
  Mark mark;
  Errors &errors;

  /// `node` with the value at the path's steps from the n-th on; null after an error.
  NodePtr at(const Node &node, size_t n, NodePtr value) const {
    const Step &step = steps[n];
    auto copy = std::make_shared<Node>(node);
    size_t place = size_t(step.index);
    if (step.index < 0) {
      const auto named = [&](const auto &known) { return known.text == step.name; };
      place = size_t(std::find_if(node.names.begin(), node.names.end(), named) - node.names.begin());
      if (place == node.names.size()) {
        copy->names.push_back({std::string(step.name), mark});
        copy->items.push_back(nullptr);
      }
    }
    if (n + 1 != steps.size()) {
      const NodePtr inner = innerOf(place < node.items.size() ? node.items[place] : nullptr, n + 1);
      value = inner ? at(*inner, n + 1, std::move(value)) : nullptr;
      if (!value)
        return nullptr;
    }
    copy->items[place] = std::move(value);
    recount(*copy);
    return copy;
  }

  /// What the n-th step leads into: a map, new where there is nothing, or a list that has such an entry.
  NodePtr innerOf(const NodePtr &found, size_t n) const {
    const bool isEntry = steps[n].index >= 0, nothing = !found || found->kind == Node::Kind::Null;
    const std::string_view before = path.substr(0, steps[n - 1].until);
    if (!isEntry && nothing) {
      auto empty = std::make_shared<Node>();
      empty->kind = Node::Kind::Map;
      empty->mark = mark;
      return empty;
    }
    if (nothing) {
      errors.add(mark, fmt::format("{}: expected a list to set {} in, found nothing; set it whole instead", before,
                                   quoted(path.substr(before.size()))));
      return nullptr;
    }
    if (isEntry ? !found->isSequence() : !found->isMap()) {
      errors.add(mark,
                 fmt::format("{}: expected a {} to set {} in, found {}; set it whole instead", before,
                             isEntry ? "list" : "map", quoted(path.substr(before.size() + !isEntry)), describe(*found)),
                 found->mark, "given here");
      return nullptr;
    }
    if (isEntry && size_t(steps[n].index) >= found->items.size()) {
      errors.add(
          mark,
          fmt::format("{}: a list of {}, the first is 0, has no entry {}", before, found->items.size(), steps[n].index),
          found->mark, "given here");
      return nullptr;
    }
    return found;
  }
};

/// "1f1b" as {name: 1f1b}, so that parameters can be laid over it.
NodePtr scheduleMap(const NodePtr &schedule) {
  if (!schedule->isScalar())
    return schedule;
  auto map = std::make_shared<Node>();
  map->kind = Node::Kind::Map;
  map->mark = schedule->mark;
  map->names.push_back({"name", schedule->mark});
  map->items.push_back(schedule);
  recount(*map);
  return map;
}

NodePtr layOverAt(const NodePtr &base, const NodePtr &over, bool whole) {
  if (!base->isMap() || !over->isMap())
    return over;
  auto copy = std::make_shared<Node>(*base);
  std::unordered_map<std::string_view, size_t> known;
  for (size_t i = 0; i < base->names.size(); ++i)
    known.emplace(base->names[i].text, i);
  for (size_t i = 0; i < over->names.size(); ++i) {
    const NodePtr &item = over->items[i];
    auto at = known.find(over->names[i].text);
    if (at == known.end()) {
      copy->names.push_back(over->names[i]);
      copy->items.push_back(item);
      continue;
    }
    const NodePtr &old = base->items[at->second];
    bool schedule = whole && at->first == "schedule";
    copy->items[at->second] = !schedule                              ? layOverAt(old, item, false)
                              : item->isMap() && !item->find("name") ? layOverAt(scheduleMap(old), item, false)
                                                                     : item;
  }
  recount(*copy);
  return copy;
}

} // namespace

NodePtr overlay(const NodePtr &root, std::string_view path, NodePtr value, Mark mark, Errors &errors) {
  const std::vector<Step> steps = stepsOf(path);
  if (steps.empty()) {
    errors.add(mark, fmt::format("expected the path of a key, such as costs.forward or layers[2].forward, found {}",
                                 quoted(path)));
    return nullptr;
  }
  return Overlaying{path, steps, mark, errors}.at(*root, 0, std::move(value));
}

NodePtr layOver(const NodePtr &base, const NodePtr &over) { return layOverAt(base, over, true); }

NodePtr without(const NodePtr &map, std::string_view name) {
  auto copy = std::make_shared<Node>();
  copy->kind = Node::Kind::Map;
  copy->mark = map->mark;
  for (size_t i = 0; i < map->names.size(); ++i)
    if (map->names[i].text != name) {
      copy->names.push_back(map->names[i]);
      copy->items.push_back(map->items[i]);
    }
  recount(*copy);
  return copy;
}

} // namespace pipec::spec
