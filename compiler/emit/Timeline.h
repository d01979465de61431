// The timeline in a terminal: a row a rank, time to the right, microbatch numbers where they fit.
#pragma once

#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"

#include <string>

namespace pipec::emit {

struct TimelineOptions {
  int columns = 80;
  bool colour = false;
  plan::Time scale = 0; // time that the width stands for; 0: the makespan
};

/// One simulated step.
Status timeline(const plan::Variant &variant, const TimelineOptions &options, std::string &text);

} // namespace pipec::emit
