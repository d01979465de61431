// The ways in which the search makes orders and makes them better, each a row with a name and named parameters.
// `bench-search --ablate` leaves one row out at a time and prints what gets worse without it; a row that helps hardly
// anywhere goes.
#pragma once

#include "compiler/schedule/construct/ListSchedule.h"
#include "compiler/schedule/construct/Rounds.h"
#include "compiler/schedule/construct/Weave.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pipec::schedule {

/// List scheduling for one stage a rank, or for several; most promising first.
std::span<const Policy> listWays(bool single);
std::string nameOf(const Policy &way);

/// Weaving; where ranks have several stages and memory is limited.
std::span<const WeaveOptions> weaveWays();
std::string nameOf(const WeaveOptions &way);

/// Rounds; where memory is limited.
std::span<const RoundOptions> roundWays();
std::string nameOf(const RoundOptions &way);

// Ways without a table: for these there are as many candidates as the problem gives.
inline constexpr std::string_view kSlackWay = "slack as memory allows";
inline constexpr std::string_view kBlockWay = "block of equal slots";
// Beams, by how many microbatches may wait at each stage.
inline constexpr std::string_view kBeamWay = "beam", kShareBeamWay = "beam in shares",
                                  kMoreBeamWay = "beam in shares and one more";
// Improvements.
inline constexpr std::string_view kFillWay = "fill gaps", kDeferWay = "defer W", kAnnealWay = "anneal",
                                  kFewWay = "anneal few microbatches, then repeat";

/// The way of a schedule of the catalogue.
std::string publishedWay(std::string_view entry);

/// The names of all ways, the catalogue's schedules too.
std::vector<std::string> allWays();

} // namespace pipec::schedule
