// A picture as SVG, for a paper or a README: small, text as text, readable on light and dark pages. Operations under
// about a pixel are drawn as what part of the time each kind takes, so that a step of any size stays a figure.
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
