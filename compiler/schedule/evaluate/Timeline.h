// What a rank is busy with, and what it holds, over time, as passes are laid on it in any order.
#pragma once

#include "compiler/schedule/model/Problem.h"

#include <optional>
#include <vector>

namespace pipec::schedule {

/// Stretches in which a rank is busy.
class Timeline {
public:
  /// The earliest start from `ready` on with so long a gap.
  Time earliest(Time ready, Time length) const { return Search(*this, ready).earliest(ready, length); }
  /// The latest start up to `start` with so long a gap, but none before `least`.
  Time latest(Time start, Time length, Time least) const;
  void add(Time start, Time length);

private:
  struct Stretch {
    Time start, end;
  };
  std::vector<Stretch> busy; // ascending

public:
  /// The same question again and again, never for sooner than before.
  class Search {
  public:
    Search(const Timeline &timeline, Time ready);
    Time earliest(Time ready, Time length);

  private:
    const std::vector<Stretch> &busy;
    std::vector<Stretch>::const_iterator next;
  };
};

/// Bytes that a rank holds. What is laid fits, so that sums stay near the capacity.
class Held {
public:
  struct Change {
    Time at;
    Bytes bytes;
    bool operator<(const Change &other) const { return at != other.at ? at < other.at : bytes < other.bytes; }
  };
  /// What W would free if nothing more were laid; ascending.
  std::vector<Change> expected;

  /// When it would first be more than `capacity` with `more`, ascending; none: never.
  std::optional<Time> firstOver(const std::vector<Change> &more, Bytes capacity) const;
  std::optional<Time> nextRelease(Time after) const;
  void add(const Change &change);
  /// Nothing that begins sooner will be asked about.
  void forget(Time before);

private:
  Bytes base = 0; // at the end of what is forgotten
  std::vector<Change> changes;
};

struct Timed {
  Time start;
  Op op;
};

/// A rank's F and B in the order of their time; a W where it fits before the next of them, or an F needs its memory.
Word withWeights(const Problem &problem, Bytes capacity, std::vector<Timed> passes);

} // namespace pipec::schedule
