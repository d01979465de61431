// The published schedules, each a file of Catalogue/ with its paper and section at its head. An entry makes the
// building block of its schedule for a problem.
#pragma once

#include "compiler/schedule/Block.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pipec::schedule {

struct Entry {
  std::string_view name;                 // "1f1b"
  std::vector<std::string_view> aliases; // PyTorch's class names, matched in any case
  BackwardMode defaultBackward;
  bool allowsFused, allowsSplit;
  int32_t stagesPerRank;           // what the schedule fixes; 0: free
  std::string_view placement;      // "loop", "v", …: what the schedule fixes
  std::string_view source;         // paper, section
  std::string_view bubble, memory; // formulas, for `pipec schedules`
  Block (*block)(const Problem &problem);
};

/// All entries, by name.
const std::vector<Entry> &catalogue();
/// By name or alias, in any case; null if unknown.
const Entry *find(std::string_view name);
/// The nearest known name, for a suggestion; empty if nothing is near.
std::string_view nearest(std::string_view name);

} // namespace pipec::schedule
