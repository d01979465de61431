// A term of a maximum on one shard, as a function of the shard's units, and its inverse.
#pragma once

#include "compiler/portions/Program.h"

namespace pipec::portions {

class Line {
public:
  Line(const Program &program, Maximum::Kind kind, const Term &term, size_t shard);

  Wide of(int64_t units) const;
  /// The most units, up to all units to be distributed, with a value of at most `limit`; -1 if even 0 units exceed
  /// `limit`.
  int64_t within(Wide limit) const;
  /// The value per unit without rounding, on a shard of factor 1. Parts with By::Either are left out, so this is a
  /// lower bound.
  long double rate() const { return perUnit; }

private:
  struct Slope {
    Wide slope = 0;
    int64_t count = 1;
    Part::By by = Part::By::Kept;
  };
  Wide of(const Slope &slope, int64_t units) const;
  int64_t withinOne(Wide limit) const;

  std::vector<Slope> parts;
  Wide over = 1;
  bool halfUp = false;
  bool holdsOwned = false; // some part has By::Either
  int64_t all = 0;         // units to be distributed
  int64_t ofAll = 0;       // units of the split: that many are owned in all
  int64_t owned = 0;       // units that the shard owns
  Wide most = 0;           // the value of all units
  long double perUnit = 0;
};

/// The most bytes that the wire carries within `time` picoseconds.
Bytes bytesWithin(Wide time, int64_t bandwidth);

} // namespace pipec::portions
