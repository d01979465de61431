// Checks a spec's tree against the table of keys: each value has its key's type and range, or an error at its place
// says what was expected. Resolve.h checks everything that involves more than one key.
#pragma once

#include "compiler/spec/Keys.h"
#include "compiler/spec/Tree.h"

#include <map>
#include <string>
#include <vector>

namespace pipec::spec {

/// A parsed scalar: fixed + perSample × samples of a microbatch, or a value from a table by samples.
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
  bool valid = false; // false: an error has been reported
  /// For a duration, size, bandwidth, integer, boolean or choice (its index): one number, or a list.
  std::vector<Number> numbers;
};

/// By path, "costs.links[3].from".
using Values = std::map<std::string, Value, std::less<>>;

/// The values of the spec without its variants, which are checked separately.
Values checkValues(const NodePtr &root, Errors &errors);

} // namespace pipec::spec
