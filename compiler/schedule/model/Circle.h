// One interval of a repeated schedule as a circle of time, and the times in it at which a rank is busy.
#pragma once

#include "compiler/schedule/model/Problem.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <vector>

namespace pipec::schedule {

class Circle {
public:
  explicit Circle(Time length) : length(length) {}

  bool isFree(Time start, Time duration) const {
    const Time begin = start % length, end = begin + duration;
    return end <= length ? isFreeWithin(begin, end) : isFreeWithin(begin, length) && isFreeWithin(0, end - length);
  }
  void add(Time start, Time duration) {
    const Time begin = start % length, end = begin + duration;
    insert(begin, std::min(end, length));
    if (end > length)
      insert(0, end - length);
  }
  /// The earliest start from `ready` on at which a pass fits; nothing if it fits nowhere.
  std::optional<Time> earliest(Time ready, Time duration) const {
    Time start = ready;
    const size_t most = 2 * busy.size() + 2;
    for (size_t i = 0; i < most && start < ready + length; ++i) {
      if (isFree(start, duration))
        return start;
      start += untilEnd(start);
    }
    return std::nullopt;
  }

private:
  struct Stretch {
    Time begin, end;
  };
  Time length;
  std::vector<Stretch> busy; // ascending

  std::vector<Stretch>::const_iterator firstEndingAfter(Time time) const {
    return std::partition_point(busy.begin(), busy.end(), [&](const Stretch &each) { return each.end <= time; });
  }
  bool isFreeWithin(Time begin, Time end) const {
    const auto next = firstEndingAfter(begin);
    return next == busy.end() || next->begin >= end;
  }
  /// Marks a stretch as busy; stretches that touch are joined.
  void insert(Time begin, Time end) {
    const auto next = busy.begin() + (firstEndingAfter(begin) - busy.cbegin());
    const bool joinsBefore = next != busy.begin() && std::prev(next)->end == begin;
    const bool joinsNext = next != busy.end() && next->begin == end;
    if (joinsBefore && joinsNext) {
      std::prev(next)->end = next->end;
      busy.erase(next);
    } else if (joinsBefore) {
      std::prev(next)->end = end;
    } else if (joinsNext) {
      next->begin = begin;
    } else {
      busy.insert(next, {begin, end});
    }
  }
  /// The time from `start` to the end of the busy stretch that a pass starting then would overlap.
  Time untilEnd(Time start) const {
    const Time at = start % length;
    const auto next = firstEndingAfter(at);
    return next == busy.end() ? busy.front().end + length - at : next->end - at;
  }
};

} // namespace pipec::schedule
