// When a rank is busy, and how many bytes it holds, while passes are placed on the rank in any order.
#pragma once

#include "compiler/schedule/model/Problem.h"

#include <optional>
#include <vector>

namespace pipec::schedule {

/// The stretches of time in which a rank is busy.
class Timeline {
public:
  /// The earliest start from `ready` on of a gap of this length.
  Time earliest(Time ready, Time length) const { return Search(*this, ready).earliest(ready, length); }
  /// The latest start, at most `start`, of a gap of this length; `least` if there is none after `least`.
  Time latest(Time start, Time length, Time least) const;
  void add(Time start, Time length);

private:
  struct Stretch {
    Time start, end;
  };
  std::vector<Stretch> busy; // ascending

public:
  /// Answers `earliest` repeatedly, for values of `ready` that never decrease.
  class Search {
  public:
    Search(const Timeline &timeline, Time ready);
    Time earliest(Time ready, Time length);

  private:
    const std::vector<Stretch> &busy;
    std::vector<Stretch>::const_iterator next;
  };
};

/// The bytes that a rank holds over time. Everything placed fits the capacity, so sums stay small.
class Held {
public:
  struct Change {
    Time at;
    Bytes bytes;
    bool operator<(const Change &other) const { return at != other.at ? at < other.at : bytes < other.bytes; }
  };
  /// Bytes that pending W would free if nothing else were placed; ascending in time.
  std::vector<Change> expected;

  /// The first time at which the bytes held would exceed `capacity` if the changes `more` (ascending) were added; none:
  /// never.
  std::optional<Time> firstOver(const std::vector<Change> &more, Bytes capacity) const;
  std::optional<Time> nextRelease(Time after) const;
  void add(const Change &change);
  /// Merges all changes up to `before`; later calls must not ask about earlier times.
  void forget(Time before);

private:
  Bytes base = 0; // bytes held after the merged changes
  std::vector<Change> changes;
};

struct Timed {
  Time start;
  Op op;
};

/// A rank's word from the times of its F and B. Each W goes where it fits before the next F or B, or where an F needs
/// the memory that the W frees.
Word withWeights(const Problem &problem, Bytes capacity, std::vector<Timed> passes);

} // namespace pipec::schedule
