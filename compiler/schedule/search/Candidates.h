// The candidates of the search. Each is a recipe that makes words for any number of microbatches.
#pragma once

#include "compiler/schedule/catalogue/Catalogue.h"
#include "compiler/schedule/construct/ListSchedule.h"
#include "compiler/schedule/construct/Modulo.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace pipec::schedule {

struct Candidate {
  std::string way;  // name of its way (Ways.h)
  std::string name; // for people
  /// Makes the words, which may still exceed the capacities; none if the recipe does not apply to the problem.
  std::function<std::optional<Words>(const Problem &problem, const Capacities &capacities)> make;
  bool placesWeights = false; // the recipe decides where W go
};

/// All candidates. Within a kind the most promising comes first; the kinds alternate.
std::vector<Candidate> candidatesOf(const Problem &problem, const Capacities &capacities);

/// By stage: how many microbatches a rank should hold there, at least one. The rank's capacity is divided among its
/// stages in proportion to how long each stage holds a microbatch. Empty if no rank has several stages, or memory has
/// no limit.
std::vector<int32_t> sharesOf(const Problem &problem, const Capacities &capacities);

} // namespace pipec::schedule
