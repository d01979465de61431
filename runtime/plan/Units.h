// Durations, sizes and bandwidths with units, as in specs and scenarios. They are read exactly, without floating point:
// a fraction of a picosecond, byte or byte per second is rounded once, half up, in 128 bits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pipec::units {

/// A value, or why there is none.
struct Quantity {
  int64_t value = 0;
  std::string error;

  bool ok() const { return error.empty(); }
};

/// "18.522ms" → picoseconds; at most 10^18.
Quantity parseDuration(std::string_view text);
/// "1.5GiB" → bytes; at most 2^60.
Quantity parseSize(std::string_view text);
/// "12.5GB/s", "10Gbit/s", "unlimited" → bytes per second; 0: unlimited; else at least 1, at most 2^60.
Quantity parseBandwidth(std::string_view text);
/// Decimal digits alone: no sign, no leading zero.
Quantity parseInteger(std::string_view text, int64_t least, int64_t most);

/// "1.25" → millionths, 1,250,000: no unit, at most six digits after the point.
Quantity parseDecimal(std::string_view text, int64_t least, int64_t most);
/// "1.25%" or "0.0125" → millionths; of a percentage at most four digits after the point.
Quantity parsePart(std::string_view text, int64_t least, int64_t most);
/// The reverse of parseDecimal: "1.25".
std::string decimalText(int64_t millionths);

/// Text, such as a file's name, made safe for messages: control characters are escaped, those of U+0080 to U+009F too.
std::string escaped(std::string_view text);
/// Text from a file: in quotes, at most 40 bytes of it, escaped.
std::string quoted(std::string_view text);
/// The same without the quotes.
std::string shown(std::string_view text);

/// What is wrong with text that is shown to people; empty: nothing. Text must be UTF-8 without control characters,
/// those of U+0080 to U+009F included.
std::string wrongText(std::string_view text);
/// The same for a name, which must also be no longer than limits::kNameBytes.
std::string wrongName(std::string_view text);
/// Shortens a name made of several parts to the longest that a name may be, ending in "…".
std::string cutName(std::string name);

/// Regular expressions of the same grammar, for the schema.
std::string durationPattern();
std::string sizePattern();
std::string bandwidthPattern();
std::string percentagePattern();

} // namespace pipec::units
