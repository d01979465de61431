// A picture as SVG, for a paper or a README: small, text as text, readable on light and dark pages. Where operations
// are under about a pixel, each kind's share of the time is drawn instead, so that a step of any size stays a figure.
#pragma once

#include "compiler/pictures/Picture.h"

#include <string>

namespace pipec::emit {

struct SvgOptions {
  int width = 900; // pixels
};

/// The same text for the same picture, everywhere.
std::string svg(const Picture &picture, const SvgOptions &options);

} // namespace pipec::emit
