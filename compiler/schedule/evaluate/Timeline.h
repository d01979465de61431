// When a rank is busy, and what it holds, as passes are placed on it in any order.
#pragma once

#include "compiler/schedule/model/Problem.h"

#include <optional>
#include <vector>

namespace pipec::schedule {

/// Stretches in which a rank is busy.
class Timeline {
public:
  /// The earliest start from `ready` on of a gap of this length.
  Time earliest(Time ready, Time length) const { return Search(*this, ready).earliest(ready, length); }
  /// The latest start up to `start` of a gap of this length; `least` if that is before it.
  Time latest(Time start, Time length, Time least) const;
  void add(Time start, Time length);

private:
  struct Stretch {
    Time start, end;
  };
  std::vector<Stretch> busy; // ascending

public:
  /// Answers `earliest` again and again, for starts that never go back.
  class Search {
  public:
    Search(const Timeline &timeline, Time ready);
    Time earliest(Time ready, Time length);

  private:
    const std::vector<Stretch> &busy;
    std::vector<Stretch>::const_iterator next;
  };
};

/// Bytes that a rank holds over time. What is placed fits the capacity, so sums stay small.
class Held {
public:
  struct Change {
    Time at;
    Bytes bytes;
    bool operator<(const Change &other) const { return at != other.at ? at < other.at : bytes < other.bytes; }
  };
  /// What W that are not placed yet would free, if nothing else were placed; ascending in time.
  std::vector<Change> expected;

  /// When the bytes held would first exceed `capacity` if the changes `more` (ascending) were added; nothing: never.
  std::optional<Time> firstOver(const std::vector<Change> &more, Bytes capacity) const;
  std::optional<Time> nextRelease(Time after) const;
  void add(const Change &change);
  /// Merges what lies up to `before`: nothing that begins sooner will be asked about.
  void forget(Time before);

private:
  Bytes base = 0; // at the end of what is forgotten
  std::vector<Change> changes;
};

struct Timed {
  Time start;
  Op op;
};

/// A rank's word from the times of its F and B. Each W stands where it fits before the next F or B, or where an F needs
/// the memory that it frees.
Word withWeights(const Problem &problem, Bytes capacity, std::vector<Timed> passes);

} // namespace pipec::schedule
