// `variants`: partial specs that override the spec, and what all variants must have in common.
#pragma once

#include "compiler/spec/Spec.h"
#include "compiler/spec/Tree.h"
#include "compiler/spec/Values.h"

#include <optional>
#include <string>
#include <vector>

namespace pipec::spec {

struct Overlay {
  NodePtr tree;
  Mark mark;
  std::string name; // unique: "v-half", "k=2", "variant 3"
};

/// The partial specs in the value of `variants`, which must have passed checkValues.
std::vector<Overlay> overlaysOf(const Node &variants);

/// Limits the values and stages of all variants together, since each variant repeats everything that it does not
/// change.
class VariantSizes {
public:
  explicit VariantSizes(Errors &errors) : errors(errors) {}

  /// False after an error.
  bool add(const Node &tree, Mark mark) { return count(tree.values, mark); }
  bool addStages(const Spec &spec, Mark mark) { return count(spec.stages, mark); }

private:
  bool count(int64_t more, Mark mark);

  Errors &errors;
  int64_t values = 0;
};

/// Compares each variant's values with the first variant's: they share ranks, placement, layers and the provider's map.
/// If microbatches have different sizes, every cost and size of a microbatch must say how it depends on samples.
class SharedByVariants {
public:
  explicit SharedByVariants(Errors &errors) : errors(errors) {}

  void add(Values values, const std::optional<Marked<int32_t>> &microbatchSize);

private:
  void same(const char *path, const Values &values) const;
  void sampled(const Values &values, Mark size) const;

  Errors &errors;
  bool any = false;
  Values first;
  std::optional<Marked<int32_t>> firstSize;
};

} // namespace pipec::spec
