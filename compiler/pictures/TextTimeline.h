// A picture for a terminal: one row per lane, time to the right, microbatch numbers where they fit, no line wider than
// requested.
#pragma once

#include "compiler/pictures/Picture.h"

#include <string>

namespace pipec::emit {

struct TimelineOptions {
  int columns = 80;
  bool colour = false;
};

std::string timeline(const Picture &picture, const TimelineOptions &options);

} // namespace pipec::emit
