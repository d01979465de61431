// The colours of pictures: told apart by people with any kind of colour vision, and what is written on them can be
// read.
#include "compiler/pictures/Palette.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <gtest/gtest.h>

namespace pipec::emit {
namespace {

using Vector = std::array<double, 3>;
using Matrix = std::array<Vector, 3>;

// Machado, Oliveira and Fernandes, A Physiologically-based Model for Simulation of Color Vision Deficiency, 2009,
// severity 1: on linear red, green and blue.
constexpr Matrix kProtan = {
    {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}}};
constexpr Matrix kDeutan = {
    {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}}};
constexpr Matrix kTritan = {
    {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}}};
constexpr Matrix kUsual = {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};

Vector linear(Colour colour) {
  Vector result;
  for (int i = 0; i != 3; ++i) {
    const double value = double(colour >> (16 - 8 * i) & 0xFF) / 255;
    result[size_t(i)] = value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
  }
  return result;
}

Vector times(const Matrix &matrix, const Vector &vector) {
  Vector result = {};
  for (size_t i = 0; i != 3; ++i)
    for (size_t j = 0; j != 3; ++j)
      result[i] += matrix[i][j] * vector[j];
  return result;
}

/// CIE L*a*b*, white D65.
Vector lab(const Vector &rgb) {
  constexpr Matrix kXyz = {{{0.4124, 0.3576, 0.1805}, {0.2126, 0.7152, 0.0722}, {0.0193, 0.1192, 0.9505}}};
  constexpr Vector kWhite = {0.9505, 1, 1.089};
  Vector f, xyz = times(kXyz, rgb);
  for (size_t i = 0; i != 3; ++i) {
    const double t = std::max(xyz[i], 0.0) / kWhite[i];
    f[i] = t > 0.008856 ? std::cbrt(t) : 7.787 * t + 16.0 / 116;
  }
  return {116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])};
}

double distance(Colour a, Colour b, const Matrix &vision) {
  const Vector x = lab(times(vision, linear(a))), y = lab(times(vision, linear(b)));
  return std::sqrt(std::pow(x[0] - y[0], 2) + std::pow(x[1] - y[1], 2) + std::pow(x[2] - y[2], 2));
}

TEST(Palette, KindsAreToldApartByEveryEye) {
  constexpr double kPlain = 12; // of CIE 1976; 2.3 is what is just noticed
  for (const Matrix &vision : {kUsual, kProtan, kDeutan, kTritan})
    for (size_t a = 0; a != kLooks.size(); ++a)
      for (size_t b = 0; b != a; ++b)
        EXPECT_GT(distance(kLooks[a].fill, kLooks[b].fill, vision), kPlain) << kLooks[a].name << ", " << kLooks[b].name;
}

TEST(Palette, ChunksAreToldApartByEveryEye) {
  constexpr double kPlain = 6;
  for (const Matrix &vision : {kUsual, kProtan, kDeutan, kTritan})
    for (int chunks : {2, 4})
      for (size_t look = 0; look != 4; ++look)
        for (int chunk = 1; chunk != chunks; ++chunk)
          EXPECT_GT(
              distance(shade(kLooks[look].fill, chunk - 1, chunks), shade(kLooks[look].fill, chunk, chunks), vision),
              kPlain)
              << kLooks[look].name;
}

TEST(Palette, TextCanBeRead) {
  constexpr double kText = 4.5, kLarge = 3; // WCAG 2, levels AA
  for (const Theme &theme : {kLight, kDark}) {
    EXPECT_GT(contrast(theme.ink, theme.page), kText);
    EXPECT_GT(contrast(theme.faint, theme.page), kText);
    EXPECT_GT(contrast(theme.mark, theme.page), kLarge);
  }
  for (const Look &look : kLooks)
    for (int chunk = 0; chunk != 4; ++chunk) {
      const Colour fill = shade(look.fill, chunk, 4);
      EXPECT_GT(contrast(inkOn(fill), fill), kText) << look.name << " " << chunk;
    }
}

TEST(Palette, Shades) {
  EXPECT_EQ(shade(0x0072B2, 0, 4), 0x0072B2u);
  EXPECT_EQ(shade(0x0072B2, 3, 1), 0x0072B2u);
  EXPECT_EQ(shade(0x000000, 1, 2), 0x7F7F7Fu);
  EXPECT_EQ(shade(0x000000, 9, 4), shade(0x000000, 3, 4));
  EXPECT_EQ(hex(0x0072B2), "#0072b2");
}

} // namespace
} // namespace pipec::emit
