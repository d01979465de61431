// A choice of units as numbers alone: how many units of each split each shard gets, so that a sum of maxima over the
// shards is least. Every time between two sums is such a maximum; so are an exchange and what memory is needed.
#pragma once

#include "compiler/portions/Model.h"

#include <vector>

namespace pipec::portions {

using Wide = __int128;
/// By split and shard: units.
using Counts = std::vector<std::vector<int64_t>>;

/// `count` times `amount` (picoseconds or bytes) of all units, of those that a shard keeps, owns, or owns or keeps.
struct Part {
  enum class By : uint8_t {
    Kept,
    Owned,  // in proportion to those kept, where some are left out: the fewest that may be for Work, the most for Bytes
    Either, // kept, or those in Program::owned if they are more
  };
  int64_t count = 1, amount = 0;
  By by = By::Kept;
  bool operator==(const Part &) const = default;
};

/// What a split of so many units adds to a maximum.
struct Term {
  int32_t split = 0;
  int64_t units = 1;
  std::vector<Part> parts;
  bool operator==(const Term &) const = default;
};

/// The most over the shards of what is fixed and what the terms give.
struct Maximum {
  enum class Kind : uint8_t {
    Work,     // a shard's factor times the parts, each rounded half up; picoseconds
    Bytes,    // the parts, each rounded up
    Exchange, // what goes in, or out if that is more, for units beyond or below those owned; bytes, each part rounded
              // up; as picoseconds on a wire
  };
  Kind kind = Kind::Work;
  Wide weight = 1; // how often it counts; 0: it only must not pass `most`
  std::vector<Wide> fixed;
  std::vector<Term> terms; // splits ascending
  Wide most = -1;          // -1: anything
  bool operator==(const Maximum &) const = default;
};

struct Program {
  std::vector<Factor> factors;
  std::vector<int64_t> units; // of each split, to be given to the shards
  Counts owned;               // of each split, where it does not follow from what is kept; else empty
  int64_t bandwidth = 0;      // of an exchange; above 0 where there is one
  std::vector<Maximum> maxima;
  Wide constant = 0; // what comes on top

  size_t shards() const { return factors.size(); }
  size_t splits() const { return units.size(); }
  /// Maxima of equal fixed parts and terms become one.
  void join();
};

/// Splits that share a maximum are in one set, by the least of each; a split that is in none is alone. Sets ascend.
std::vector<std::vector<int32_t>> independentSets(const Program &program);
/// The program of these splits alone, ascending, numbered anew, without the constant. Their maxima have no others.
Program partOf(const Program &program, const std::vector<int32_t> &splits);

/// A maximum of given counts; of an exchange in picoseconds.
Wide valueOf(const Program &program, const Maximum &maximum, const Counts &counts);
/// The weighted sum of all; -1 where one passes its most.
Wide valueOf(const Program &program, const Counts &counts);

} // namespace pipec::portions
