#include "compiler/pictures/Palette.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace pipec::emit {

namespace {

std::array<int, 3> parts(Colour colour) {
  return {int(colour >> 16 & 0xFF), int(colour >> 8 & 0xFF), int(colour & 0xFF)};
}

double luminance(Colour colour) {
  std::array<double, 3> linear;
  std::array<int, 3> part = parts(colour);
  for (size_t i = 0; i != 3; ++i) {
    double value = part[i] / 255.0;
    linear[i] = value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
  }
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
}

} // namespace

Colour shade(Colour colour, int chunk, int chunks) {
  // Integers alone, so that a picture is the same everywhere.
  constexpr int kMost = 60; // percent of white in the last of many; two chunks need less to stand apart
  if (chunks < 2 || chunk <= 0)
    return colour;
  int white = (chunks == 2 ? 50 : kMost) * std::min(chunk, chunks - 1) / (chunks - 1);
  Colour result = 0;
  for (int part : parts(colour))
    result = result << 8 | Colour(part + (255 - part) * white / 100);
  return result;
}

double contrast(Colour a, Colour b) {
  double first = luminance(a), second = luminance(b);
  return (std::max(first, second) + 0.05) / (std::min(first, second) + 0.05);
}

Colour inkOn(Colour colour) {
  // Nearly equal: white on a saturated colour reads better than the formula says.
  constexpr double kFavour = 1.3;
  return contrast(colour, 0xFFFFFF) * kFavour >= contrast(colour, 0x000000) ? 0xFFFFFF : 0x000000;
}

std::string hex(Colour colour) { return fmt::format("#{:06x}", colour); }

} // namespace pipec::emit
