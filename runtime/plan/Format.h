// The sixteen bytes before a plan's FlatBuffer (design, section 5), shared by writer and reader.
#pragma once

#include "runtime/plan/Kinds.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace pipec::plan {

inline constexpr std::string_view kMagic = "PIPEPLAN";
inline constexpr uint16_t kMajor = 1;
// The newest of what it has: its kinds, and what its collectives carry and their groups (1.3).
inline constexpr uint16_t kMinor = std::max(uint8_t(3), std::ranges::max(kKindTable, {}, &KindRow::since).since);
// Where the fields stand; each little endian.
inline constexpr size_t kMajorAt = 8;
inline constexpr size_t kMinorAt = 10;
inline constexpr size_t kChecksumAt = 12;
inline constexpr size_t kHeaderBytes = 16;

} // namespace pipec::plan
