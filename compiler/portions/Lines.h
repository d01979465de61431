// A term of a maximum on one shard: what so many units give, and how many units give no more than that.
#pragma once

#include "compiler/portions/Program.h"

namespace pipec::portions {

class Line {
public:
  Line(const Program &program, Maximum::Kind kind, const Term &term, size_t shard);

  Wide of(int64_t units) const;
  /// The most units, up to all that are to be given, that give no more; -1 where even none do.
  int64_t within(Wide limit) const;
  /// What a unit gives if nothing were rounded, on a shard of factor 1; at most that.
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
  bool holdsOwned = false; // some part is of units that are owned
  int64_t all = 0;         // units to be given
  int64_t ofAll = 0;       // of which so many are owned where all are kept
  int64_t owned = 0;       // by the shard
  Wide most = 0;           // what all give
  long double perUnit = 0;
};

/// The most bytes that are on the wire no longer than that.
Bytes bytesWithin(Wide time, int64_t bandwidth);

} // namespace pipec::portions
