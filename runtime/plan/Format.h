// The sixteen bytes before a plan's FlatBuffer (design, section 5), shared by writer and reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace pipec::plan {

inline constexpr std::string_view kMagic = "PIPEPLAN";
inline constexpr uint16_t kMajor = 1;
inline constexpr uint16_t kMinor = 3;
// Where the fields stand; each little endian.
inline constexpr size_t kMajorAt = 8;
inline constexpr size_t kMinorAt = 10;
inline constexpr size_t kChecksumAt = 12;
inline constexpr size_t kHeaderBytes = 16;

} // namespace pipec::plan
