// A spec's tree held against the table of keys: each value is of its key's type and range, or an error says at its
// place what was expected. What needs more than one key to judge, Resolve.h judges.
#pragma once

#include "compiler/spec/Keys.h"
#include "compiler/spec/Tree.h"

#include <map>
#include <string>
#include <vector>

namespace pipec::spec {

/// A parsed scalar: fixed + perSample × samples of a microbatch, or what a table has for those.
struct Number {
  int64_t fixed = 0;
  int64_t perSample = 0;
  bool sampled = false;
  Mark mark;
  schedule::TimesBySamples bySamples = {}; // empty: no table
};

struct Value {
  const Key *key; // null for a map of a list
  Mark mark;
  NodePtr node;
  bool valid = false;          // otherwise an error stands already
  std::vector<Number> numbers; // of a duration, size, bandwidth, integer, boolean, choice (its index): one, or a list
};

/// By path, "costs.links[3].from".
using Values = std::map<std::string, Value, std::less<>>;

/// The values of the spec as it is. Its variants are not laid over it; each is checked by itself.
Values checkValues(const NodePtr &root, Errors &errors);

} // namespace pipec::spec
