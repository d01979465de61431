// Where the four streams of V placement stand on each rank, in slots of an interval: a dynamic programme over the
// ranks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace pipec::schedule {

/// In the order in which a microbatch is in them: F of a rank's first stage (down the ranks), F of its second (up), B
/// of its second (down), B of its first (up).
enum Stream : size_t { kOut, kBack, kAgain, kHome };

/// One rank, in slots.
struct Level {
  std::array<int32_t, 4> length{};
  std::array<int32_t, 2> weight{}; // of the first and the second chunk
  std::array<int32_t, 4> hop{}; // of a stream, from its start on this rank to that on the rank before, or the other way
  bool operator==(const Level &) const = default;
};

/// The problem in slots.
struct Fold {
  std::vector<Level> levels;
  int32_t work = 0; // of the busiest rank
};

/// When each stream starts on each rank, and W of each chunk.
struct Slots {
  std::array<int64_t, 4> at{};
  std::array<int64_t, 2> weight{};
};

/// The slots of a microbatch that waits least, counted from its first start, where all others do the same a multiple of
/// the interval earlier or later; none where the passes do not fit. O(ranks · interval^3).
std::optional<std::vector<Slots>> pass(const Fold &fold, int32_t interval);

} // namespace pipec::schedule
