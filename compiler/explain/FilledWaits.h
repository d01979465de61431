// Explains why pieces of a background job run in an idle time of a rank, or why none do.
#pragma once

#include "runtime/plan/Plan.h"

#include <string>

namespace pipec::emit {

/// A wait in the first step of a run, before `next`, or after the rank's last instruction (null).
struct IdleStretch {
  const plan::Instruction *next = nullptr; // instruction of the program after the wait
  bool first = false;                      // no instruction of the rank precedes the wait
  plan::Time length = 0;
};

/// Returns a sentence and sets `pieces` to the number of pieces; empty if the plan has no jobs.
std::string filledText(const plan::Variant &variant, const plan::Program &program, const IdleStretch &idle,
                       int64_t &pieces);

} // namespace pipec::emit
