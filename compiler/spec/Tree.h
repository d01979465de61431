// YAML as a plain tree with places, on which the reader works, so that only Tree.cpp uses yaml-cpp. Every tree is small
// enough to walk: depth and the number of values, with aliases expanded, are limited.
#pragma once

#include "compiler/spec/Diagnostic.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace pipec::spec {

struct Node;
using NodePtr = std::shared_ptr<const Node>; // shared, since an alias refers to the node it names

struct Node {
  enum class Kind : uint8_t { Null, Scalar, Sequence, Map };
  struct Name {
    std::string text;
    Mark mark;
  };

  Kind kind = Kind::Null;
  Mark mark;
  std::string text;           // of a scalar
  bool plain = true;          // a scalar without quotes
  std::vector<Name> names;    // keys of a map, one for each item, unique
  std::vector<NodePtr> items; // of a map or a sequence
  int64_t values = 1;         // number of values in this subtree, aliases expanded
  int height = 1;

  bool isScalar() const { return kind == Kind::Scalar; }
  bool isSequence() const { return kind == Kind::Sequence; }
  bool isMap() const { return kind == Kind::Map; }
  /// The item with that name; null if there is none.
  const Node *find(std::string_view name) const;
};

inline constexpr int kTreeDepth = 64;
inline constexpr int64_t kTreeValues = int64_t(1) << 20;
inline constexpr int kTreeLines = 2 << 20;

/// The tree of the text; null after an error that leaves nothing to read. `source` goes into the marks.
NodePtr parseTree(std::string_view text, int source, Errors &errors);

/// Replaces the item at `path` ("costs.forward", "layers[2].forward") by `value`. Adds missing maps, but no list
/// entries. Returns the root, which may be new; null after an error.
NodePtr overlay(const NodePtr &root, std::string_view path, NodePtr value, Mark mark, Errors &errors);

/// Overrides a map with a partial map: maps are merged key by key, everything else is replaced. If `over` names a
/// schedule, the schedule is replaced with all its parameters; otherwise its parameters are merged.
NodePtr layOver(const NodePtr &base, const NodePtr &over);
/// The same map without that key.
NodePtr without(const NodePtr &map, std::string_view name);

/// Bytes of all text in the subtree, aliases expanded; counting stops above `enough`.
int64_t textBytes(const Node &node, int64_t enough);

/// For messages: "a map", "a list", "nothing", "'text'".
std::string describe(const Node &node);

/// As JSON; a plain scalar that is a JSON number, boolean or null is one, all others are strings.
std::string toJson(const Node &node);

} // namespace pipec::spec
