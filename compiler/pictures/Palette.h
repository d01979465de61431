// Colours for all pictures: SVG, HTML and terminal. The table of kinds (runtime/plan/Kinds.h) gives each kind of work
// its letter, word and colour.
#pragma once

#include "runtime/plan/Kinds.h"

#include <cstdint>
#include <string>

namespace pipec::emit {

using Colour = uint32_t; // 0xRRGGBB

using plan::kLooks;
using plan::Look;
using plan::lookIndex;
using plan::lookOf;

/// Colours of the page and of its elements, as {light, dark}.
struct Theme {
  Colour page, ink, faint, idle, mark, decision;
};
inline constexpr Theme kLight = {0xFFFFFF, 0x1F2328, 0x59636E, 0xEEF0F2, 0xB3261E, 0xC2007A};
inline constexpr Theme kDark = {0x0D1117, 0xE6EDF3, 0x9198A1, 0x21262D, 0xFF8C7A, 0xFF6BC1};

/// The colour of one of `chunks` chunks on a rank: unchanged for the first, lighter for later ones.
Colour shade(Colour colour, int chunk, int chunks);
/// Black or white, whichever has more contrast.
Colour inkOn(Colour colour);
/// The contrast ratio of WCAG 2, from 1 to 21.
double contrast(Colour a, Colour b);
/// "#0072b2"
std::string hex(Colour colour);

} // namespace pipec::emit
