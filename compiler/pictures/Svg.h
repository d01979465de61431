// A picture as SVG, for a paper or a README: small, with real text, readable on light and dark pages. Where operations
// are narrower than about a pixel, each kind's fraction of the time is drawn instead, so that a step of any size stays
// a small figure.
#pragma once

#include "compiler/pictures/Picture.h"

#include <string>

namespace pipec::emit {

struct SvgOptions {
  int width = 900; // pixels
};

/// The SVG text; the same for the same picture on every machine.
std::string svg(const Picture &picture, const SvgOptions &options);

} // namespace pipec::emit
