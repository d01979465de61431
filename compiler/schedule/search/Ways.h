// A *way* is a method by which the search makes or improves orders: a row with a name and named parameters.
// `bench-search --ablate` leaves out one row at a time and prints what gets worse without it; a row that helps almost
// nowhere is removed.
#pragma once

#include "compiler/schedule/construct/ListSchedule.h"
#include "compiler/schedule/construct/Rounds.h"
#include "compiler/schedule/construct/Weave.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pipec::schedule {

/// List scheduling with one stage per rank, or with several; most promising first.
std::span<const Policy> listWays(bool single);
std::string nameOf(const Policy &way);

/// Weaving, for ranks with several stages and limited memory.
std::span<const WeaveOptions> weaveWays();
std::string nameOf(const WeaveOptions &way);

/// Rounds, for limited memory.
std::span<const RoundOptions> roundWays();
std::string nameOf(const RoundOptions &way);

// Ways without a table; the problem determines the number of their candidates.
inline constexpr std::string_view kSlackWay = "slack as memory allows";
inline constexpr std::string_view kBlockWay = "block of equal slots";
// Beam searches, by how many microbatches may wait at each stage.
inline constexpr std::string_view kBeamWay = "beam", kShareBeamWay = "beam in shares",
                                  kMoreBeamWay = "beam in shares and one more";
// Improvements.
inline constexpr std::string_view kFillWay = "fill gaps", kDeferWay = "defer W", kAnnealWay = "anneal",
                                  kFewWay = "anneal few microbatches, then repeat";

/// The name of the way of a catalogue schedule.
std::string publishedWay(std::string_view entry);

/// The names of all ways, including the catalogue's schedules.
std::vector<std::string> allWays();

} // namespace pipec::schedule
