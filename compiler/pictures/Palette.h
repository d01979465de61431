// One table of looks for every picture, whether SVG, HTML or terminal: what kind of work is which letter, word and
// colour. The colours are Okabe and Ito's (Color Universal Design, 2008), which people with any kind of colour vision
// tell apart; PaletteTest holds them to that.
#pragma once

#include "runtime/plan/Plan.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace pipec::emit {

using Colour = uint32_t; // 0xRRGGBB

struct Look {
  std::string_view letter; // "F"
  std::string_view name;   // "forward"
  std::string_view css;    // its class in a style sheet: "forward"
  Colour fill;
  /// xterm's 256 colours: backgrounds of even and odd microbatches, so that neighbours stand apart, and the text on
  /// them.
  std::array<int, 2> terminal;
  int terminalInk;
};

/// The looks in the order of legends.
inline constexpr std::array<Look, 7> kLooks = {{
    {"F", "forward", "forward", 0x0072B2, {25, 32}, 231},
    {"B", "backward", "backward", 0xE69F00, {214, 222}, 16},
    {"W", "weight backward", "weight", 0x009E73, {36, 79}, 16},
    {"X", "forward and backward overlapped", "overlapped", 0xCC79A7, {175, 182}, 16},
    {"O", "optimizer", "optimizer", 0x666666, {241, 241}, 231},
    {"T", "transfer", "transfer", 0x56B4E9, {74, 117}, 16},
    {"A", "collective", "collective", 0xF0E442, {227, 228}, 16},
}};

/// An index into kLooks.
constexpr size_t lookIndex(plan::Kind kind) {
  switch (kind) {
  case plan::Kind::Forward:
    return 0;
  case plan::Kind::BackwardInput:
  case plan::Kind::Backward:
    return 1;
  case plan::Kind::BackwardWeight:
    return 2;
  case plan::Kind::Overlapped:
    return 3;
  case plan::Kind::Send:
  case plan::Kind::Recv:
    return 5;
  case plan::Kind::AllReduce:
  case plan::Kind::ReduceScatter:
  case plan::Kind::AllGather:
    return 6;
  default:
    return 4;
  }
}
constexpr const Look &lookOf(plan::Kind kind) { return kLooks[lookIndex(kind)]; }

/// The page and what stands on it, as {light, dark}.
struct Theme {
  Colour page, ink, faint, idle, mark;
};
inline constexpr Theme kLight = {0xFFFFFF, 0x1F2328, 0x59636E, 0xEEF0F2, 0xD55E00};
inline constexpr Theme kDark = {0x0D1117, 0xE6EDF3, 0x9198A1, 0x21262D, 0xFF8C42};

/// The colour of one of so many chunks on a rank: the first as it stands, later ones lighter.
Colour shade(Colour colour, int chunk, int chunks);
/// Black or white, whichever stands out more.
Colour inkOn(Colour colour);
/// WCAG 2's ratio, from 1 to 21.
double contrast(Colour a, Colour b);
/// "#0072b2"
std::string hex(Colour colour);

} // namespace pipec::emit
