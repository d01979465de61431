// A choice of units in numbers alone: how many units of each split each shard gets, so that a weighted sum of maxima
// over the shards is least. Each time between two sums is such a maximum; so are the time of an exchange and the
// memory.
#pragma once

#include "compiler/portions/Model.h"

#include <vector>

namespace pipec::portions {

using Wide = __int128;
/// By split and shard: units.
using Counts = std::vector<std::vector<int64_t>>;

/// `count` times a part of `amount`: picoseconds or bytes of all units of a split. `by` says which units of a shard
/// count.
struct Part {
  enum class By : uint8_t {
    Kept,
    Owned,  // those owned; if units are left out, in proportion to those kept, rounded down for Work and up for Bytes
    Either, // those kept, or those in Program::owned if they are more
  };
  int64_t count = 1, amount = 0;
  By by = By::Kept;
  bool operator==(const Part &) const = default;
};

/// What a split with `units` units adds to a maximum.
struct Term {
  int32_t split = 0;
  int64_t units = 1;
  std::vector<Part> parts;
  bool operator==(const Term &) const = default;
};

/// The largest value over the shards of the fixed part plus the terms.
struct Maximum {
  enum class Kind : uint8_t {
    Work,  // picoseconds: the shard's factor times the parts, each rounded half up
    Bytes, // bytes: the parts, each rounded up
    /// Picoseconds on the wire for the bytes that come in or go out, whichever are more, for units above or below those
    /// owned; each part is rounded up.
    Exchange,
  };
  Kind kind = Kind::Work;
  Wide weight = 1; // factor in the program's value; 0: the maximum only has to stay within `most`
  std::vector<Wide> fixed;
  std::vector<Term> terms; // splits ascending
  Wide most = -1;          // largest value allowed; -1: no limit
  bool operator==(const Maximum &) const = default;
};

struct Program {
  std::vector<Factor> factors;
  std::vector<int64_t> units; // by split: units to be distributed over the shards
  Counts owned;               // by split and shard: units owned; empty if ownership follows from the units kept
  int64_t bandwidth = 0;      // bytes per second of an exchange; above 0 if there is an exchange
  std::vector<Maximum> maxima;
  Wide constant = 0; // added to the weighted sum

  size_t shards() const { return factors.size(); }
  size_t splits() const { return units.size(); }
  /// Merges maxima with equal fixed parts and terms.
  void join();
};

/// Sets of splits that share no maximum with other sets. Sets ascend by their lowest split.
std::vector<std::vector<int32_t>> independentSets(const Program &program);
/// The program of these splits alone, renumbered in ascending order, without the constant. `splits` must share no
/// maximum with other splits.
Program partOf(const Program &program, const std::vector<int32_t> &splits);

/// The value of a maximum for given counts; an exchange in picoseconds.
Wide valueOf(const Program &program, const Maximum &maximum, const Counts &counts);
/// The weighted sum of all maxima, plus the constant; -1 if a maximum exceeds its `most`.
Wide valueOf(const Program &program, const Counts &counts);

} // namespace pipec::portions
