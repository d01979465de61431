// One grammar for all quantities: digits [. digits] unit. All units are whole multiples of the base, so only the
// fraction needs rounding.
#include "runtime/plan/Units.h"

#include "runtime/plan/Limits.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <span>

namespace pipec::units {
namespace {

using Wide = unsigned __int128;

struct Unit {
  std::string_view name;
  int64_t factor; // in the base unit
};

constexpr Unit kDurations[] = {
    {"ps", 1}, {"ns", 1'000}, {"us", 1'000'000}, {"ms", 1'000'000'000}, {"s", 1'000'000'000'000}};
constexpr Unit kSizes[] = {{"B", 1},
                           {"kB", 1'000},
                           {"MB", 1'000'000},
                           {"GB", 1'000'000'000},
                           {"TB", 1'000'000'000'000},
                           {"KiB", int64_t(1) << 10},
                           {"MiB", int64_t(1) << 20},
                           {"GiB", int64_t(1) << 30},
                           {"TiB", int64_t(1) << 40}};
constexpr Unit kBandwidths[] = {{"B/s", 1},
                                {"kB/s", 1'000},
                                {"MB/s", 1'000'000},
                                {"GB/s", 1'000'000'000},
                                {"TB/s", 1'000'000'000'000},
                                {"KiB/s", int64_t(1) << 10},
                                {"MiB/s", int64_t(1) << 20},
                                {"GiB/s", int64_t(1) << 30},
                                {"TiB/s", int64_t(1) << 40},
                                {"kbit/s", 1'000 / 8},
                                {"Mbit/s", 1'000'000 / 8},
                                {"Gbit/s", 1'000'000'000 / 8}};
constexpr std::string_view kUnlimited = "unlimited";
constexpr size_t kFractionDigits = 18;
constexpr size_t kWholeDigits = 19; // 2^60 has 19

struct Measure {
  std::string_view what; // "a duration"
  std::span<const Unit> units;
  int64_t most;
  std::string_view mostText;
};

constexpr Measure kDuration = {"a duration", kDurations, limits::kTime, "10^18 ps"};
constexpr Measure kSize = {"a size", kSizes, limits::kBytes, "2^60 bytes"};
constexpr Measure kBandwidth = {"a bandwidth", kBandwidths, limits::kBytes, "2^60 bytes a second"};

std::string unitNames(std::span<const Unit> units, std::string_view separator) {
  std::string names;
  for (const Unit &unit : units)
    names += (names.empty() ? "" : std::string(separator)) + std::string(unit.name);
  return names;
}

std::string_view takeDigits(std::string_view &text) {
  size_t count = 0;
  while (count < text.size() && text[count] >= '0' && text[count] <= '9')
    ++count;
  std::string_view digits = text.substr(0, count);
  text.remove_prefix(count);
  return digits;
}

/// At most 19 digits.
Wide toNumber(std::string_view digits) {
  Wide number = 0;
  for (char digit : digits)
    number = number * 10 + Wide(digit - '0');
  return number;
}

Quantity parse(std::string_view text, const Measure &measure) {
  auto wrong = [&] {
    return Quantity{0, fmt::format("expected {} with a unit ({}), found {}", measure.what,
                                   unitNames(measure.units, ", "), quoted(text))};
  };
  std::string_view rest = text;
  if (text.starts_with('-')) {
    rest.remove_prefix(1);
    if (Quantity positive = parse(rest, measure); !positive.ok())
      return wrong();
    return {0, fmt::format("expected {} that is not negative, found {}", measure.what, quoted(text))};
  }
  std::string_view whole = takeDigits(rest);
  if (whole.empty() || (whole.size() > 1 && whole.front() == '0'))
    return wrong();
  std::string_view fraction;
  if (rest.starts_with('.')) {
    rest.remove_prefix(1);
    fraction = takeDigits(rest);
    if (fraction.empty())
      return wrong();
  }
  while (rest.starts_with(' '))
    rest.remove_prefix(1);
  const Unit *unit = nullptr;
  for (const Unit &known : measure.units)
    if (known.name == rest)
      unit = &known;
  if (!unit)
    return wrong();

  while (fraction.ends_with('0'))
    fraction.remove_suffix(1);
  if (fraction.size() > kFractionDigits)
    return {0, fmt::format("expected at most {} digits after the point, found {}", kFractionDigits, quoted(text))};
  // Both products stay below 10^19 × 2^40 < 2^127.
  Wide value = Wide(measure.most) + 1;
  if (whole.size() <= kWholeDigits) {
    Wide scale = 1;
    for (size_t i = 0; i < fraction.size(); ++i)
      scale *= 10;
    value = toNumber(whole) * Wide(unit->factor) + (2 * toNumber(fraction) * Wide(unit->factor) + scale) / (2 * scale);
  }
  if (value > Wide(measure.most))
    return {0, fmt::format("expected {} of at most {}, found {}", measure.what, measure.mostText, quoted(text))};
  return {static_cast<int64_t>(value), {}};
}

std::string pattern(const Measure &measure) {
  return fmt::format("^(0|[1-9][0-9]*)(\\.[0-9]+)? *({})$", unitNames(measure.units, "|"));
}

} // namespace

std::string escaped(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  std::string result;
  for (size_t i = 0; i < text.size(); ++i)
    if (byte(i) < 0x20 || byte(i) == 0x7F)
      result += fmt::format("\\x{:02x}", byte(i));
    else if (byte(i) == 0xC2 && byte(i + 1) >= 0x80 && byte(i + 1) < 0xA0) // U+0080 to U+009F
      result += fmt::format("\\u{:04x}", byte(++i));
    else
      result += text[i];
  return result;
}

std::string quoted(std::string_view text) { return fmt::format("'{}'", shown(text)); }

std::string shown(std::string_view text) {
  constexpr size_t kShown = 40;
  size_t end = std::min(text.size(), kShown);
  while (end < text.size() && end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80)
    --end; // not through the middle of a character
  return escaped(text.substr(0, end)) + (end < text.size() ? "…" : "");
}

namespace {

/// Bytes of the character at the start of a text that is not empty; 0: it is no UTF-8.
size_t characterBytes(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const unsigned first = byte(0), second = byte(1);
  if (first < 0x80)
    return 1;
  const size_t bytes = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  // An overlong form, a surrogate, or past U+10FFFF.
  if (first < 0xC2 || first > 0xF4 || (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
      (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F))
    return 0;
  for (size_t i = 1; i < bytes; ++i)
    if ((byte(i) & 0xC0) != 0x80)
      return 0;
  return bytes;
}

} // namespace

std::string wrongText(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = characterBytes(text.substr(at));
    if (bytes == 0)
      return fmt::format("byte {} is no UTF-8", at);
    const auto first = static_cast<unsigned char>(text[at]);
    if (first < 0x20 || first == 0x7F || (first == 0xC2 && static_cast<unsigned char>(text[at + 1]) < 0xA0))
      return fmt::format("byte {} begins a control character", at);
    at += bytes;
  }
  return {};
}

std::string wrongName(std::string_view text) {
  if (text.size() > size_t(limits::kNameBytes))
    return fmt::format("{} bytes are over the limit of {}", text.size(), limits::kNameBytes);
  return wrongText(text);
}

std::string cutName(std::string name) {
  constexpr std::string_view kMore = "…";
  if (name.size() <= size_t(limits::kNameBytes))
    return name;
  size_t end = size_t(limits::kNameBytes) - kMore.size();
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80)
    --end; // not through the middle of a character
  return name.substr(0, end).append(kMore);
}

Quantity parseDuration(std::string_view text) { return parse(text, kDuration); }

Quantity parseSize(std::string_view text) { return parse(text, kSize); }

Quantity parseBandwidth(std::string_view text) {
  if (text == kUnlimited)
    return {};
  Quantity quantity = parse(text, kBandwidth);
  if (quantity.ok() && quantity.value == 0)
    return {0, fmt::format("expected at least 1B/s, or '{}', found {}", kUnlimited, quoted(text))};
  return quantity;
}

Quantity parseInteger(std::string_view text, int64_t least, int64_t most) {
  std::string_view rest = text;
  std::string_view digits = takeDigits(rest);
  bool decimal = !digits.empty() && rest.empty();
  if (decimal && digits.size() > 1 && digits.front() == '0')
    return {0, fmt::format("expected an integer without leading zeros, found {}", quoted(text))};
  Wide value = decimal && digits.size() <= kWholeDigits ? toNumber(digits) : Wide(most) + 1;
  if (!decimal || value < Wide(least) || value > Wide(most)) {
    if (least == most)
      return {0, fmt::format("expected {}, found {}", least, quoted(text))};
    return {0, fmt::format("expected an integer from {} to {}, found {}", least, most, quoted(text))};
  }
  return {static_cast<int64_t>(value), {}};
}

static constexpr int64_t kMillion = 1'000'000;

Quantity parseDecimal(std::string_view text, int64_t least, int64_t most) {
  constexpr size_t kDigits = 6;
  std::string_view rest = text;
  const std::string_view whole = takeDigits(rest);
  std::string fraction;
  bool decimal = !whole.empty() && (whole.size() == 1 || whole.front() != '0');
  if (decimal && rest.starts_with('.')) {
    rest.remove_prefix(1);
    fraction = takeDigits(rest);
    decimal = !fraction.empty();
  }
  decimal &= rest.empty() && whole.size() + kDigits < kWholeDigits && fraction.size() <= kDigits;
  fraction.resize(kDigits, '0');
  const Wide value = decimal ? toNumber(whole) * Wide(kMillion) + toNumber(fraction) : Wide(0);
  if (!decimal || value < Wide(least) || value > Wide(most))
    return {0, fmt::format("expected a number from {} to {}, at most six digits after the point, found {}",
                           decimalText(least), decimalText(most), quoted(text))};
  return {static_cast<int64_t>(value), {}};
}

Quantity parsePart(std::string_view text, int64_t least, int64_t most) {
  constexpr int64_t kPercent = 100;
  const bool isPercentage = text.ends_with('%');
  std::string_view number = text;
  if (isPercentage)
    number.remove_suffix(1);
  while (isPercentage && number.ends_with(' '))
    number.remove_suffix(1);
  const int64_t scale = isPercentage ? kPercent : 1;
  const Quantity scaled = parseDecimal(number, least * scale, most * scale);
  if (scaled.ok() && scaled.value % scale == 0)
    return {scaled.value / scale, {}};
  return {0, fmt::format("expected a percentage from {}% to {}%, at most four digits after the point, or a number from "
                         "{} to {}, at most six, found {}",
                         decimalText(least * kPercent), decimalText(most * kPercent), decimalText(least),
                         decimalText(most), quoted(text))};
}

std::string decimalText(int64_t millionths) {
  std::string text = fmt::format("{}.{:06}", millionths / kMillion, millionths % kMillion);
  text.resize(text.find_last_not_of('0') + 1);
  if (text.ends_with('.'))
    text.pop_back();
  return text;
}

std::string durationPattern() { return pattern(kDuration); }
std::string sizePattern() { return pattern(kSize); }
std::string percentagePattern() { return "^(0|[1-9][0-9]*)(\\.[0-9]{1,4}0{0,2})? *%$"; }
std::string bandwidthPattern() { return fmt::format("^{}$|{}", kUnlimited, pattern(kBandwidth)); }

} // namespace pipec::units
