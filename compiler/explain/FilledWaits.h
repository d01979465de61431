// Why pieces of a background job stand in an idle stretch of a rank, or why none do.
#pragma once

#include "runtime/plan/Plan.h"

#include <string>

namespace pipec::emit {

/// A wait of the first step of a run, before `next`, or behind the rank's last instruction (null).
struct IdleStretch {
  const plan::Instruction *next = nullptr; // of the program
  bool first = false;                      // nothing of the rank stands before it
  plan::Time length = 0;
};

/// A sentence, and how many pieces that are; empty where the plan has no jobs.
std::string filledText(const plan::Variant &variant, const plan::Program &program, const IdleStretch &idle,
                       int64_t &pieces);

} // namespace pipec::emit
