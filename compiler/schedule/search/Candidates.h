// What the search tries, each a recipe that makes words for any number of microbatches.
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
  std::string name; // for people
  /// None, or words that may still break the capacities.
  std::function<std::optional<Words>(const Problem &problem, const Capacities &capacities)> make;
  bool placesWeights = false; // it has thought of where W go
};

/// Most promising first of each kind; the kinds take turns.
std::vector<Candidate> candidatesOf(const Problem &problem, const Capacities &capacities);

/// Of each stage, its share of the rank's capacity by how long it holds a microbatch; at least one. Empty where no rank
/// holds several stages or nothing limits them.
std::vector<int32_t> sharesOf(const Problem &problem, const Capacities &capacities);

} // namespace pipec::schedule
