// One lane of an SVG figure: boxes where they can be distinguished, fractions of the time where they cannot.
#pragma once

#include "compiler/pictures/Picture.h"

#include <string>

namespace pipec::emit {

/// Lengths in the figure are hundredths of a pixel: integers, so that a figure is the same everywhere.
using Cent = int64_t;

/// "12", "12.5", "0.25"
std::string centText(Cent cents);
/// The position of a time on an axis of length `width` for `scale`.
Cent centOf(plan::Time time, plan::Time scale, Cent width);

struct LaneLook {
  plan::Time scale = 1;
  Cent width = 0, height = 0;
  int chunks = 1;
  /// Width of a column in which boxes too small to distinguish are drawn as fractions; 0: every box is drawn.
  Cent column = 0;
  Cent text = 0; // size of the numbers; 0: none
};

/// Width enough for a number at a font size, in any common sans serif.
Cent textWidth(int64_t number, Cent size);

/// Strokes across the lane where pieces of jobs run, from its upper left corner.
std::string hatchSvg(const Lane &lane, const LaneLook &look);

/// SVG elements whose origin is the lane's upper left corner.
std::string laneSvg(const Lane &lane, const LaneLook &look);

} // namespace pipec::emit
