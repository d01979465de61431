// A box of the search: what each maximum may be, and what units each shard may have.
#pragma once

#include "compiler/portions/Lines.h"

#include <vector>

namespace pipec::portions {

struct Box {
  std::vector<Wide> low, high;      // by maximum; of an exchange in picoseconds
  std::vector<int64_t> least, most; // units, by split and shard
  Wide bound = 0;
};

/// A program with its lines worked out, and what holds of boxes in it.
class Boxes {
public:
  explicit Boxes(const Program &program);

  /// Of all counts.
  Box whole() const;
  /// Leaves out what cannot be: nothing in the box, or nothing below `best` (-1: there is no best yet). False: so it is
  /// of all of it. The counts in it that are left are the same.
  bool narrow(Box &box, Wide best);
  /// Counts within a box's ranges, near its lower ends; they may pass what maxima may be at most.
  Counts point(const Box &box);

  int64_t looks = 0; // at lines, so far

private:
  struct MaximumLines {
    std::vector<Line> lines;        // by shard and term
    std::vector<long double> rates; // of a term on a shard of factor 1
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
  /// The least value of a maximum of one term that has room for all units, between two that do not and do.
  Wide leastFor(const Box &box, size_t maximum, Wide tooLow, Wide enough);
  struct Tangent {
    long double room = 0;            // for units
    std::vector<long double> slopes; // units more for a picosecond more of a maximum
  };
  bool isStraight() const;
  /// Where all maxima are as far between their ends.
  Tangent tangentAt(const Box &box, long double step);
  Wide slopeBound(const Box &box);
  bool mayBe(const Box &box, size_t maximum, Wide value);
  bool mayBeTogether(const Box &box, size_t maximum, Wide value);
  /// The units of a split that a shard may have if a maximum has this value, within the box's.
  int64_t mostWithin(const Box &box, size_t maximum, size_t shard, size_t term, Wide value);
  /// What a term of an exchange gives at least.
  Wide leastIn(const Box &box, size_t maximum, size_t shard, size_t term);
  Wide leastOut(const Box &box, size_t maximum, size_t shard, size_t term);
  int64_t dropFrom(const Box &box, size_t split, const std::vector<int64_t> &counts);

  const Program &program;
  size_t shards;
  bool straight = false;
  std::vector<MaximumLines> all;
  std::vector<std::vector<std::pair<size_t, size_t>>> ofSplit; // maximum, term
};

} // namespace pipec::portions
