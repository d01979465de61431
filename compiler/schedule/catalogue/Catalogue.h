// The published schedules. Each is a file of this folder with its paper and section at the top. An entry makes its
// schedule's building block for a problem or, if the schedule is no block repeated at one interval, its words.
#pragma once

#include "compiler/schedule/model/Block.h"

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pipec::schedule {

/// The value of a parameter: a number, or a list of numbers.
struct Given {
  Given(int64_t value) : values{value} {}
  explicit Given(std::vector<int64_t> list) : values(std::move(list)), list(true) {}

  std::vector<int64_t> values;
  bool list = false;
};

/// The parameters in `schedule: {name: …, k: 2}` other than the name.
using Parameters = std::map<std::string, Given, std::less<>>;
/// The value of a number parameter; `otherwise` if it is not given.
int64_t numberOf(const Parameters &parameters, std::string_view name, int64_t otherwise);

struct Parameter {
  std::string_view name;
  int64_t least;
  std::string_view meaning; // for people, with its default
  bool list = false;        // the parameter is a list of numbers
};

struct Entry {
  std::string_view name;                 // "1f1b"
  std::vector<std::string_view> aliases; // PyTorch's class names, matched in any case
  BackwardMode defaultBackward;
  bool allowsFused, allowsSplit;
  int32_t stagesPerRank;           // as the schedule requires; 0: any
  std::string_view placement;      // as the schedule requires: "loop", "v", …
  std::string_view source;         // paper, section
  std::string_view bubble, memory; // formulas, for `pipec schedules`
  std::vector<Parameter> parameters = {};
  /// Makes the schedule's block, or its words; one of the two is null. Both need a problem with the placement and
  /// backward mode above.
  Block (*block)(const Problem &problem) = nullptr;
  Words (*words)(const Problem &problem, const Parameters &parameters) = nullptr;
  /// Says what the schedule does not allow in a problem or in parameters, beyond the parameters' least values; an empty
  /// string if everything is allowed. Null: everything is allowed.
  std::string (*refuses)(const Problem &problem, const Parameters &parameters) = nullptr;
  /// Stages per rank if neither the schedule nor the spec says how many.
  int32_t usualStagesPerRank = 1;
  /// Backwards run from the last microbatch to the first.
  bool lastMicrobatchFirst = false;
  /// Whether there is an order for microbatches that are cut into slices.
  bool allowsSlices = false;
  /// Whether its words have both whole and split backwards.
  bool mixesBackwards = false;
  /// Whether its words overlap some forwards with a backward, if the problem has times for such pairs.
  bool overlaps = false;

  /// The number of pipelines that run side by side.
  int32_t copies() const { return placement == "bidirectional" ? 2 : 1; }
  /// Problem::backwardGroup for this schedule.
  int32_t backwardGroup(const Problem &problem) const {
    return lastMicrobatchFirst ? problem.microbatches : problem.slices;
  }
};

/// Returns an error unless the schedule has a parameter of this name; an empty string if it has.
std::string checkParameter(const Entry &entry, std::string_view name);
/// Says what a schedule does not allow in a problem or in its parameters; an empty string if everything is allowed.
std::string check(const Entry &entry, const Problem &problem, const Parameters &parameters);
/// The words of an entry, from its block or directly. Needs check to have passed.
Words wordsOf(const Entry &entry, const Problem &problem, const Parameters &parameters);

/// Stage → rank, as the schedule places them: in a loop; "v", there and back as often as there are chunks; or
/// "bidirectional", two copies of the stages, the second from the last rank to the first.
std::vector<int32_t> placementOf(const Entry &entry, int32_t ranks, int32_t stagesOfCopy);

/// All entries, by name.
const std::vector<Entry> &catalogue();
/// By name or alias, in any case; null if unknown.
const Entry *find(std::string_view name);
/// The known name that the user probably meant, from the catalogue or from `others`: by the meaning of the name
/// (Nearest.cpp), by its spelling, or as a part of it; empty if no name is near.
std::string_view nearest(std::string_view name, std::span<const std::string_view> others = {});

} // namespace pipec::schedule
