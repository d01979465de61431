#include "runtime/plan/Text.h"

#include <fmt/format.h>

#include <array>

namespace pipec::plan {

namespace {

struct Unit {
  const char *name;
  int64_t size;
};

/// The value in the largest unit that it reaches, with at most three decimals and no trailing zero.
template <size_t N> std::string text(int64_t value, const std::array<Unit, N> &units) {
  const Unit *unit = &units.back();
  for (const Unit &each : units)
    if (value >= each.size || value <= -each.size) {
      unit = &each;
      break;
    }
  std::string digits = fmt::format("{:.3f}", double(value) / double(unit->size));
  digits.erase(digits.find_last_not_of('0') + 1);
  if (digits.back() == '.')
    digits.pop_back();
  return digits + " " + unit->name;
}

} // namespace

std::string bytesText(Bytes bytes) {
  return text(bytes, std::array<Unit, 5>{{{"TiB", int64_t(1) << 40},
                                          {"GiB", int64_t(1) << 30},
                                          {"MiB", int64_t(1) << 20},
                                          {"KiB", int64_t(1) << 10},
                                          {"B", 1}}});
}

std::string timeText(Time time) {
  return text(time,
              std::array<Unit, 5>{
                  {{"s", 1'000'000'000'000}, {"ms", 1'000'000'000}, {"us", 1'000'000}, {"ns", 1'000}, {"ps", 1}}});
}

std::string bandwidthText(int64_t bandwidth) {
  return text(
      bandwidth,
      std::array<Unit, 5>{
          {{"TB/s", 1'000'000'000'000}, {"GB/s", 1'000'000'000}, {"MB/s", 1'000'000}, {"kB/s", 1'000}, {"B/s", 1}}});
}

} // namespace pipec::plan
