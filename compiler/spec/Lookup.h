// Values by path, for the last step of reading. A value is absent, known to be wrong, or present and as the table of
// keys requires.
#pragma once

#include "compiler/spec/Spec.h"
#include "compiler/spec/Values.h"

#include <string>
#include <string_view>

namespace pipec::spec {

class Lookup {
public:
  /// `root`: the place of the whole spec, for errors about missing values.
  Lookup(const Values &values, Mark root, Errors &errors) : errors(errors), values(values), root(root) {}

  Errors &errors;

  bool given(std::string_view path) const { return values.find(path) != values.end(); }
  /// Null if the value is absent or already known to be wrong.
  const Value *get(std::string_view path) const;
  Mark markOf(std::string_view path) const;

  /// An integer, boolean or choice.
  template <typename T> void single(std::string_view path, Marked<T> &into) const {
    if (const Value *value = get(path))
      into = {static_cast<T>(value->numbers[0].fixed), value->mark};
  }
  void text(std::string_view path, Marked<std::string> &into) const;

  /// Reads what the map at `path` gives of a link; the rest of `into` stays.
  void link(const std::string &path, Link &into) const;

  /// A cost or size of a microbatch, evaluated for the spec's samples; 0 if absent.
  int64_t ofMicrobatch(const std::string &path, const Spec &spec, int64_t most) const;
  /// The same before samples are known.
  BySample sizeBySample(const std::string &path) const;
  schedule::TimesBySamples timesBySamples(const std::string &path) const;
  bool perStage(const std::string &path, const Spec &spec, int64_t most, PerStage &into) const;

private:
  int64_t resolve(const std::string &path, const Number &number, const Spec &spec, int64_t most) const;

  const Values &values;
  Mark root;
};

/// The forms of backward cost in the map at `path`: one fused, one for the input and one for the weights, or all three.
/// None after an error.
enum class BackwardForm : uint8_t { None, Fused, Split, Both };
BackwardForm backwardForm(const Lookup &lookup, const std::string &path);

} // namespace pipec::spec
