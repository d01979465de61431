// A proven lower bound of a time. It has a type of its own, so that the duration of an order or a plan cannot be used
// where a proof is needed, nor the reverse.
#pragma once

#include <compare>
#include <cstdint>

namespace pipec::plan {

class LeastTime {
public:
  /// Zero: a bound that always holds.
  constexpr LeastTime() = default;
  /// To call where a bound was proven or is read from a file. `picoseconds`: 0 or more.
  static constexpr LeastTime proven(int64_t picoseconds) { return LeastTime(picoseconds); }

  constexpr int64_t picoseconds() const { return time; }
  /// Whether a duration is less than the bound, so that its proof must be wrong.
  constexpr bool isRefutedBy(int64_t taken) const { return taken < time; }
  /// Whether a duration reaches the bound, so that it is proven to be the best.
  constexpr bool isReachedBy(int64_t taken) const { return taken <= time; }
  /// By how much `taken` is longer, as a fraction of the bound; 0 without a bound.
  constexpr double gap(int64_t taken) const { return time > 0 ? double(taken) / double(time) - 1 : 0; }

  constexpr auto operator<=>(const LeastTime &) const = default;

private:
  explicit constexpr LeastTime(int64_t picoseconds) : time(picoseconds) {}
  int64_t time = 0;
};

} // namespace pipec::plan
