// The published schedules, each a file of this folder with its paper and section at its head. An entry makes its
// schedule's building block for a problem, or, where the schedule is no block at one interval, its words.
#pragma once

#include "compiler/schedule/model/Block.h"

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pipec::schedule {

/// The value that a parameter is given: a number, or a list of them.
struct Given {
  Given(int64_t value) : values{value} {}
  explicit Given(std::vector<int64_t> list) : values(std::move(list)), list(true) {}

  std::vector<int64_t> values;
  bool list = false;
};

/// What `schedule: {name: …, k: 2}` gives beside the name.
using Parameters = std::map<std::string, Given, std::less<>>;
/// A parameter that is a number; `otherwise` if it is not given.
int64_t numberOf(const Parameters &parameters, std::string_view name, int64_t otherwise);

struct Parameter {
  std::string_view name;
  int64_t least;
  std::string_view meaning; // with its default
  bool list = false;        // of such numbers
};

struct Entry {
  std::string_view name;                 // "1f1b"
  std::vector<std::string_view> aliases; // PyTorch's class names, matched in any case
  BackwardMode defaultBackward;
  bool allowsFused, allowsSplit;
  int32_t stagesPerRank;           // what the schedule fixes; 0: free
  std::string_view placement;      // "loop", "v", …: what the schedule fixes
  std::string_view source;         // paper, section
  std::string_view bubble, memory; // formulas, for `pipec schedules`
  std::vector<Parameter> parameters = {};
  /// Makes the schedule's block, or its words; one of the two is null. Both take problems whose placement and backward
  /// are as above.
  Block (*block)(const Problem &problem) = nullptr;
  Words (*words)(const Problem &problem, const Parameters &parameters) = nullptr;
  /// What the schedule does not allow of a problem or parameters, beyond the parameters' least values; empty when
  /// right. Null: it allows everything.
  std::string (*refuses)(const Problem &problem, const Parameters &parameters) = nullptr;
  /// Stages a rank where neither the schedule nor the spec says how many.
  int32_t usualStagesPerRank = 1;
  /// Backwards run from the last microbatch to the first.
  bool lastMicrobatchFirst = false;
  /// It has an order for microbatches that are cut into slices.
  bool allowsSlices = false;
  /// Its words have whole backwards beside split ones.
  bool mixesBackwards = false;
  /// Its words run some forwards overlapped with a backward, where the problem says what such a pair takes.
  bool overlaps = false;

  /// How many pipelines it runs side by side.
  int32_t copies() const { return placement == "bidirectional" ? 2 : 1; }
  /// As Problem::backwardGroup.
  int32_t backwardGroup(const Problem &problem) const {
    return lastMicrobatchFirst ? problem.microbatches : problem.slices;
  }
};

/// An error unless the schedule has a parameter of this name; empty when right.
std::string checkParameter(const Entry &entry, std::string_view name);
/// What a schedule does not allow of a problem or its parameters; empty when right.
std::string check(const Entry &entry, const Problem &problem, const Parameters &parameters);
/// The words of an entry, from its block or by itself. Needs check to have passed.
Words wordsOf(const Entry &entry, const Problem &problem, const Parameters &parameters);

/// Stage → rank, as the schedule places them: in a loop; "v", there and back as often as there are chunks; or
/// "bidirectional", two copies of the stages, the second from the last rank to the first.
std::vector<int32_t> placementOf(const Entry &entry, int32_t ranks, int32_t stagesOfCopy);

/// All entries, by name.
const std::vector<Entry> &catalogue();
/// By name or alias, in any case; null if unknown.
const Entry *find(std::string_view name);
/// The known name that was probably meant, of the catalogue or of those given: by what a name means (Nearest.cpp), by
/// its spelling, or as a part of it; empty if nothing is near.
std::string_view nearest(std::string_view name, std::span<const std::string_view> others = {});

} // namespace pipec::schedule
