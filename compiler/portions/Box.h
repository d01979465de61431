// A box of the search: a range of values for each maximum, and a range of units for each split and shard.
#pragma once

#include "compiler/portions/Lines.h"

#include <vector>

namespace pipec::portions {

struct Box {
  std::vector<Wide> low, high;      // by maximum; an exchange counts in picoseconds
  std::vector<int64_t> least, most; // units, by split and shard
  Wide bound = 0;
};

/// A program with its lines (Lines.h), and the operations on its boxes.
class Boxes {
public:
  explicit Boxes(const Program &program);

  /// The box of all counts.
  Box whole() const;
  /// Shrinks the box, but keeps all counts in it that can have a value below `best` (-1: there is no best yet). False:
  /// the box has no such counts.
  bool narrow(Box &box, Wide best);
  /// Counts within the box's ranges of units, near the lower ends of its maxima. They may exceed the `most` of a
  /// maximum.
  Counts point(const Box &box);

  int64_t looks = 0; // evaluations of lines so far: the measure of work

private:
  struct MaximumLines {
    std::vector<Line> lines;        // by shard and term
    std::vector<long double> rates; // by term, on a shard of factor 1
  };
  const Line &line(size_t maximum, size_t shard, size_t term) const {
    return all[maximum].lines[shard * program.maxima[maximum].terms.size() + term];
  }
  size_t at(size_t split, size_t shard) const { return split * shards + shard; }

  bool narrowByMaxima(Box &box);
  bool narrowWork(Box &box, size_t maximum, size_t shard);
  bool narrowExchange(Box &box, size_t maximum, size_t shard);
  bool narrowBySums(Box &box) const;
  void lowerEnds(Box &box);
  bool raise(Box &box);
  /// The least value of a maximum with one term at which the shards have room for all units. `tooLow` has no room,
  /// `enough` has.
  Wide leastFor(const Box &box, size_t maximum, Wide tooLow, Wide enough);
  struct Tangent {
    long double room = 0;            // units that the shards have room for
    std::vector<long double> slopes; // by maximum: more units per picosecond more of the maximum
  };
  bool isStraight() const;
  /// The tangent at the point where each maximum lies at fraction `step` between its ends.
  Tangent tangentAt(const Box &box, long double step);
  Wide slopeBound(const Box &box);
  bool mayBe(const Box &box, size_t maximum, Wide value);
  bool mayBeTogether(const Box &box, size_t maximum, Wide value);
  /// The most units of a split that a shard may have if the maximum has this value, within the box.
  int64_t mostWithin(const Box &box, size_t maximum, size_t shard, size_t term, Wide value);
  /// The least bytes of a term of an exchange that come into the shard (leastIn) or leave it (leastOut).
  Wide leastIn(const Box &box, size_t maximum, size_t shard, size_t term);
  Wide leastOut(const Box &box, size_t maximum, size_t shard, size_t term);
  int64_t dropFrom(const Box &box, size_t split, const std::vector<int64_t> &counts);

  const Program &program;
  size_t shards;
  bool straight = false;
  std::vector<MaximumLines> all;
  std::vector<std::vector<std::pair<size_t, size_t>>> ofSplit; // by split: the terms that have it, as (maximum, term)
};

} // namespace pipec::portions
