// A time that is proven: nothing that it speaks of takes less. It is a type of its own, so that a time that an order or
// a plan takes cannot stand where a proof is needed, nor the reverse.
#pragma once

#include <compare>
#include <cstdint>

namespace pipec::plan {

class LeastTime {
public:
  /// Zero, below which no time is: it says nothing, and is always true.
  constexpr LeastTime() = default;
  /// To be called by a proof, and by what reads one from a file. `picoseconds`: 0 or more.
  static constexpr LeastTime proven(int64_t picoseconds) { return LeastTime(picoseconds); }

  constexpr int64_t picoseconds() const { return time; }
  /// Whether something that takes so long shows that the proof is false.
  constexpr bool isRefutedBy(int64_t taken) const { return taken < time; }
  /// Whether what takes so long is proven to be the best.
  constexpr bool isReachedBy(int64_t taken) const { return taken <= time; }
  /// By which part of it `taken` is longer; 0 where nothing is proven.
  constexpr double gap(int64_t taken) const { return time > 0 ? double(taken) / double(time) - 1 : 0; }

  constexpr auto operator<=>(const LeastTime &) const = default;

private:
  explicit constexpr LeastTime(int64_t picoseconds) : time(picoseconds) {}
  int64_t time = 0;
};

} // namespace pipec::plan
